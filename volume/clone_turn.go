package volume

import (
	"context"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
)

// turnTime is how long a job that writes bytes goes on while others wait.
const turnTime = 10 * time.Second

// copyTurn is the turn of a job among those in the pool that copy in the same way: one writes bytes at a
// time, and one shares blocks. It also keeps to the rate of the pool.
type copyTurn struct {
	job   *cloneJob
	turns bounded.Turns
	rate  int64 // bytes a second; 0 is no bound

	since time.Time // of the turn
	next  time.Time // before which nothing more is written
}

func (p *Pool) turnOf(j *cloneJob) *copyTurn {
	t := &copyTurn{job: j, turns: p.clones.shares, rate: p.config.CopyRate}
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

// wrote waits so that the rate is not exceeded, and lets another job go first once the turn is over.
func (t *copyTurn) wrote(ctx context.Context, bytes int64) error {
	if now := time.Now(); t.rate > 0 {
		if t.next.Before(now) {
			t.next = now
		}
		t.next = t.next.Add(time.Duration(float64(bytes) / float64(t.rate) * float64(time.Second)))
		if err := bounded.Sleep(ctx, t.next.Sub(now)); err != nil {
			return err
		}
	}
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
