package volume

import (
	"context"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

const (
	// turnTime is how long a job that writes bytes goes on while others wait.
	turnTime = 10 * time.Second
	// workTime is how long it writes before it rests as long as that took.
	workTime = 20 * time.Millisecond
	// yieldTime is how long it lets calls on the pool go first.
	yieldTime = 100 * time.Millisecond
)

// copyTurn is the turn of a job among those in the pool that copy in the same way: one writes bytes at a
// time, and one shares blocks. It leaves half of the disk's time to others, because each flush of theirs
// waits for what was written before it, and it keeps to the rate of the pool.
type copyTurn struct {
	job   *cloneJob
	turns bounded.Turns
	dir   *pooldir.Opener
	rate  int64 // bytes a second; 0 is no bound

	since time.Time // of the turn
	back  time.Time // to its work
	next  time.Time // before which nothing more is written

	worked time.Duration // since it has rested
}

func (p *Pool) turnOf(j *cloneJob) *copyTurn {
	t := &copyTurn{job: j, turns: p.clones.shares, dir: p.dir, rate: p.config.CopyRate}
	if j.bytes {
		t.turns = p.clones.writes
	}
	return t
}

// take waits for the turn. Those who wait are served in the order in which they came.
func (t *copyTurn) take(ctx context.Context) error {
	t.job.wait(true)
	defer t.job.wait(false)
	select {
	case t.turns <- struct{}{}:
		t.since = time.Now()
		t.back, t.worked = t.since, 0
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give ends the turn. It does nothing if there is none.
func (t *copyTurn) give() {
	if !t.since.IsZero() {
		<-t.turns
		t.since = time.Time{}
	}
}

// wrote waits so that the rate is not exceeded, rests, and lets another job go first once the turn is over.
func (t *copyTurn) wrote(ctx context.Context, bytes int64) error {
	now := time.Now()
	if t.rate > 0 {
		if t.next.Before(now) {
			t.next = now
		}
		t.next = t.next.Add(time.Duration(float64(bytes) / float64(t.rate) * float64(time.Second)))
	}
	t.worked += now.Sub(t.back)
	rest := t.next.Sub(now)
	if t.worked >= workTime {
		rest = max(rest, t.worked)
	}
	if err := bounded.Sleep(ctx, rest); err != nil {
		return err
	}
	t.worked -= min(t.worked, max(rest, 0))
	if err := t.dir.Yield(ctx, yieldTime); err != nil {
		return err
	}
	t.back = time.Now()
	if time.Since(t.since) < turnTime {
		return ctx.Err()
	}
	t.give()
	return t.take(ctx)
}

func (j *cloneJob) wait(waits bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waits = waits
}
