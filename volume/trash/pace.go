package trash

import (
	"context"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// purgeSlack is how far a purge runs ahead before it waits: timers are not
// fine enough to wait for every file.
const purgeSlack = 5 * time.Millisecond

// removalPace is the pace of removals, which it announces.
func (t *Trash) removalPace() tree.Pace {
	pace := t.pace()
	return func(ctx context.Context) error {
		if err := pace(ctx); err != nil {
			return err
		}
		t.step("purge.remove")
		return nil
	}
}

// pace returns a function that waits so that the rate is not exceeded.
func (t *Trash) pace() tree.Pace {
	var next time.Time
	return func(ctx context.Context) error {
		if t.rate > 0 {
			now := time.Now()
			if next.Before(now) {
				next = now
			}
			if wait := next.Sub(now); wait >= purgeSlack {
				if err := bounded.Sleep(ctx, wait); err != nil {
					return err
				}
			}
			next = next.Add(time.Second / time.Duration(t.rate))
		}
		return nil
	}
}
