//go:build power

package volume_test

import (
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A keptKnown is a deleted volume that the pool keeps.
type keptKnown struct {
	UID   string // of its claim
	Bytes int64
	Dir   *directory
	// dropped is set once it was moved to the trash: until the next purge flushes that, a power cut
	// leaves it kept.
	dropped bool
}

func (k known) keptAt(uid string) int {
	return slices.IndexFunc(k.Kept, func(e keptKnown) bool { return e.UID == uid })
}

// keptAfter returns what a success of the call makes of the volumes that are kept.
func (k known) keptAfter(n note) []keptKnown {
	switch n.Do {
	case "delete":
		if k.Keep && k.Bound != no && k.Place != nil && len(k.Place.Files) > 0 {
			return append(k.without(k.UID), keptKnown{UID: k.UID, Bytes: k.Bytes, Dir: k.Place})
		}
	case "undelete":
		return k.without(n.UID)
	case "drop":
		all := slices.Clone(k.Kept)
		all[k.keptAt(n.UID)].dropped = true
		return all
	}
	return k.Kept
}

func (k known) without(uid string) []keptKnown {
	return slices.DeleteFunc(slices.Clone(k.Kept), func(e keptKnown) bool { return e.UID == uid })
}

// takeBack notes which of the dropped volumes a power cut brought back: they are kept as before.
func (a *powerAccount) takeBack(kept []volume.Kept) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range kept {
		known := a.names[k.Record.Name]
		if i := known.keptAt(k.Record.Owner.UID); i >= 0 {
			known.Kept = slices.Clone(known.Kept)
			known.Kept[i].dropped = false
			a.names[k.Record.Name] = known
		}
	}
}

// keptSurely returns the claims whose volumes are kept for sure.
func (k known) keptSurely() (uids []string) {
	for _, e := range k.Kept {
		if !e.dropped {
			uids = append(uids, e.UID)
		}
	}
	return uids
}

// unlikeKept returns how the kept volumes that were found differ from those that are known.
func (k known) unlikeKept(is known) (why []string) {
	for _, e := range k.Kept {
		switch i := is.keptAt(e.UID); {
		case i >= 0 && is.Kept[i].Bytes != e.Bytes:
			why = append(why, fmt.Sprintf("kept with %d bytes, want %d", is.Kept[i].Bytes, e.Bytes))
		case i >= 0:
			why = append(why, e.Dir.unlike("kept", is.Kept[i].Dir, true)...)
		case !e.dropped:
			why = append(why, "the volume of claim "+e.UID+" is not kept")
		}
	}
	for _, e := range is.Kept {
		if k.keptAt(e.UID) < 0 {
			why = append(why, "the volume of claim "+e.UID+" is kept")
		}
	}
	return why
}
