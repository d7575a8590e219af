package install

import (
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

var (
	// checkInterval is the least pause between two looks at what keeps a pass from its end.
	checkInterval = timing.Scaled(10 * time.Second)
	// longestInterval is the longest one: a volume may be in use for months, and a look lists PVs and
	// pods.
	longestInterval = timing.Scaled(2 * time.Minute)
)

// waiting is what passes wait for, and since when.
type waiting struct {
	what  string
	since time.Time
}

// pace returns the pause before the next look at what passes wait for: the least one, 0 if they wait
// for nothing, and from then on a tenth of the time for which they have waited for the same.
func (r *Reconciler) pace(least time.Duration, what ...any) time.Duration {
	text := fmt.Sprint(what...)
	if least == 0 || r.waits.what != text {
		r.waits = waiting{text, r.Now()}
	}
	if least == 0 {
		return 0
	}
	return min(max(least, r.Now().Sub(r.waits.since)/10), max(least, longestInterval))
}
