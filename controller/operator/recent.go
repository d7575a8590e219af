package operator

import (
	"context"
	"slices"
	"time"
)

// countedUsage is what PVs used at a time.
type countedUsage struct {
	usage usage
	at    time.Time
}

// recentUsage returns what PVs use. It counts them again only if the last count is older than checkInterval, or had no PV of something that the
// layout lacks: an older count may keep a pool for a moment longer, and never ends one. Every pod that changes begins a pass.
func (r *Reconciler) recentUsage(ctx context.Context, l, had layout) (usage, error) {
	if age := r.Now().Sub(r.counted.at); age >= 0 && age < checkInterval && r.counted.usage.keeps(l, had) {
		return r.counted.usage, nil
	}
	u, err := r.usage(ctx)
	if err == nil {
		r.counted = countedUsage{u, r.Now()}
	}
	return u, err
}

// keeps reports whether PVs use all that the layout lacks of the one before.
func (u usage) keeps(l, had layout) bool {
	for _, p := range had.pools {
		if !slices.Contains(l.pools, p) && u.pools[p.Name] == 0 {
			return false
		}
	}
	return had.pvDir == "" || had.pvDir == l.pvDir || u.hostPath > 0
}
