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

// removalPace waits so that the rate is not exceeded, and announces the removal.
func (t *Trash) removalPace() tree.Pace {
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
		t.step("purge.remove")
		return nil
	}
}
