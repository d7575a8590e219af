package operator

import (
	"context"
	"slices"
	"time"
)

// counted is what PVs used at a time.
type counted struct {
	usage usage
	at    time.Time
}

// recent returns what PVs use. It counts them again only if the last count is older than recheck, or had no PV of something that the
// layout lacks: an older count may keep a pool for a moment longer, and never ends one. Every pod that changes begins a pass.
func (r *Reconciler) recent(ctx context.Context, l, had layout) (usage, error) {
	if age := r.Now().Sub(r.counted.at); age >= 0 && age < recheck && r.counted.usage.keeps(l, had) {
		return r.counted.usage, nil
	}
	u, err := r.usage(ctx)
	if err == nil {
		r.counted = counted{u, r.Now()}
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
