//go:build power

package volume_test

import (
	"maps"
	"slices"
	"sync"
)

// A powerAccount has what the callers of a pool know.
type powerAccount struct {
	mu      sync.Mutex
	pool    string // its identity, once it was open
	names   map[string]known
	pending map[string][]note // calls without a result: one, and more if the process was killed in the first
	calls   map[string]int    // how many were asked
	sources map[string]bool   // names that were copied
	purging map[string]int    // calls when the purge began, of names that had no call under way; nil without a purge
}

func newPowerAccount() *powerAccount {
	return &powerAccount{names: map[string]known{}, pending: map[string][]note{}, calls: map[string]int{}, sources: map[string]bool{}}
}

// take adds a note.
func (a *powerAccount) take(n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case n.Do == "purge" && !n.Told:
		a.purging = map[string]int{}
		for name := range a.names {
			if a.pending[name] == nil {
				a.purging[name] = a.calls[name]
			}
		}
	case n.Do == "purge":
		for name, calls := range a.purging {
			if a.calls[name] == calls {
				a.names[name] = a.names[name].settled()
			}
		}
		a.purging = nil
	case n.Do == "start" && n.Told:
		a.pool = n.UID
		for name, k := range a.names {
			k.written = k.written || k.Place != nil // a start writes the state ready
			a.names[name] = k
		}
	case n.Do == "start":
		a.purging = nil // the process with the purge is gone
	case !n.Told:
		a.calls[n.Name]++
		a.pending[n.Name] = append(a.pending[n.Name], n)
		if n.From != "" {
			a.sources[n.From] = true
		}
	default:
		a.names[n.Name] = a.names[n.Name].after(n)
		delete(a.pending, n.Name)
	}
}

func (a *powerAccount) of(name string) known {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[name]
}

// each returns all names, in order.
func (a *powerAccount) each() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := maps.Clone(a.names)
	for name := range a.pending {
		all[name] = known{}
	}
	return slices.Sorted(maps.Keys(all))
}

// may returns how a name may be after a power cut.
func (a *powerAccount) may(name string) []known {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.names[name]
	all := []known{k}
	for _, n := range a.pending[name] {
		all = append(all, k.during(n)...)
	}
	for _, k := range all {
		if k.was != nil {
			aside := k.was.setAside()
			aside.Place, aside.Kept = k.Place, k.without(k.was.UID)
			all = append(all, aside)
		}
	}
	for _, k := range all {
		if k.Record && k.Place == nil && k.Aside == nil && !k.written {
			all = append(all, known{Kept: k.Kept})
		}
	}
	return all
}

// underWay reports whether a call for the name has no result.
func (a *powerAccount) underWay(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pending[name]) > 0
}
