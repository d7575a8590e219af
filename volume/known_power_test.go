//go:build power

package volume_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// certainty is how far the disk knows a fact.
type certainty int

const (
	no     certainty = iota
	maybe            // the pool knows, and the disk need not
	surely           // the disk knows
)

// A directory is that of a volume, or one that an administrator made by hand.
type directory struct {
	Mode, Owner uint32
	Files       map[string]string // hashes by name
	changing    bool              // files are being written or removed
}

func (d *directory) with(n note) *directory {
	files := maps.Clone(d.Files)
	files[n.File] = n.Hash
	return &directory{Mode: d.Mode, Owner: d.Owner, Files: files}
}

// A known is what callers know of a name, or what is found there. The zero value is nothing at all.
type known struct {
	Record  bool
	UID     string // of the claim
	Bytes   int64
	Bound   certainty
	Adopted bool
	Clone   bool // which Bind flushes at once
	Orphan  string
	Keep    bool       // the volume is to be kept once it is deleted
	Place   *directory // in place: the volume's or, without a record or beside Aside, an administrator's
	Aside   *directory // the volume's directory in the trash, or among those that are kept
	Kept    []keptKnown

	// written is set once the record was written again after the volume was created. If the
	// directory is removed by hand before that, a start takes the volume for one that was never
	// finished.
	written bool
	// was is the volume that was deleted: until the next purge flushes that, a power cut leaves it
	// set aside.
	was *known
}

// after returns what a success of the call makes of the name.
func (k known) after(n note) known {
	next := k.next(n)
	next.Kept = k.keptAfter(n)
	return next
}

// next is after without the volumes that are kept.
func (k known) next(n note) known {
	switch n.Do {
	case "create":
		return known{Record: true, UID: n.UID, Bytes: n.Bytes, Keep: n.Keep, Place: &directory{Mode: n.Mode, Owner: n.Owner, Files: map[string]string{}}}
	case "clone":
		return known{Record: true, Clone: true, UID: n.UID, Bytes: n.Bytes, Keep: n.Keep, Place: &directory{Mode: n.Mode, Owner: n.Owner, Files: maps.Clone(n.Files)}}
	case "write":
		k.Place = k.Place.with(n)
	case "bind":
		switch {
		case k.Orphan != "" || k.Bound == surely || k.Clone:
			k.Bound, k.Orphan, k.written = surely, "", true
		case k.Bound == no:
			k.Bound = maybe
		}
	case "expand":
		k = k.whole()
		k.Bytes = n.Bytes
	case "orphan":
		k = k.whole()
		k.Orphan = n.Why
	case "restore":
		k.written = true // with what the process knows: another one may have seen the PV
	case "delete":
		if k.Place == nil {
			return known{}
		}
		return known{was: &k}
	case "undelete":
		e := k.Kept[k.keptAt(n.UID)]
		return known{Record: true, UID: e.UID, Bytes: e.Bytes, Keep: true, Bound: surely, written: true, Place: e.Dir}
	case "drop":
	case "undo":
		return known{}
	case "adopt":
		return known{Record: true, UID: n.UID, Bytes: n.Bytes, Adopted: true, Bound: surely, written: true, Place: k.Place}
	case "mkdir":
		k.Place = &directory{Mode: n.Mode, Files: map[string]string{n.File: n.Hash}}
	case "lose", "rmdir":
		k.Place = nil
	default:
		panic(n.Do)
	}
	return k
}

// whole is the volume once its record was written again.
func (k known) whole() known {
	k.written = true
	if k.Bound == maybe {
		k.Bound = surely
	}
	return k
}

// settled is the name after a purge, which writes deferred records and flushes deletions.
func (k known) settled() known {
	k.was = nil
	k.Kept = slices.DeleteFunc(slices.Clone(k.Kept), func(e keptKnown) bool { return e.dropped })
	return k.whole()
}

// setAside is the volume while its deletion is not decided.
func (k known) setAside() known {
	k.Place, k.Aside = nil, k.Place
	return k
}

// during returns how the name may be if the power goes during the call.
func (k known) during(n note) []known {
	changing := k
	changing.Place = &directory{changing: true}
	switch after := k.after(n); n.Do {
	case "write":
		k.Place = k.Place.with(n)
		delete(k.Place.Files, n.File)
		k.Place.changing = true
		return []known{k}
	case "mkdir", "rmdir", "lose":
		return []known{changing, after}
	case "delete", "restore":
		if k.Place == nil {
			return []known{after}
		}
		return []known{after, k.setAside()}
	default:
		return []known{after}
	}
}

// unlike returns how the name that was found differs from what is known, "" if it does not.
func (k known) unlike(is known) string {
	var why []string
	differ := func(what string, is, want any) {
		if is != want {
			why = append(why, fmt.Sprintf("%s %v, want %v", what, is, want))
		}
	}
	differ("a record", is.Record, k.Record)
	if k.Record && is.Record {
		differ("the claim", is.UID, k.UID)
		differ("bytes", is.Bytes, k.Bytes)
		differ("adopted", is.Adopted, k.Adopted)
		if k.Bound != maybe || is.Orphan != "" {
			differ("bound", is.Bound == surely, k.Bound == surely)
			differ("orphan", is.Orphan, k.Orphan)
		}
	}
	why = append(why, k.Place.unlike("in place", is.Place, k.Record && !k.Adopted && k.Aside == nil)...)
	why = append(why, k.Aside.unlike("in the trash", is.Aside, k.Record && !k.Adopted)...)
	why = append(why, k.unlikeKept(is)...)
	return strings.Join(why, ", ")
}

func (d *directory) unlike(where string, is *directory, owned bool) (why []string) {
	if d == nil || is == nil {
		if is != nil || d != nil && !d.changing {
			why = append(why, fmt.Sprintf("%s %v, want %v", where, is != nil, d != nil))
		}
		return why
	}
	if d.Mode != 0 && is.Mode != d.Mode {
		why = append(why, fmt.Sprintf("%s with mode %o, want %o", where, is.Mode, d.Mode))
	}
	if owned && is.Owner != d.Owner {
		why = append(why, fmt.Sprintf("%s with owner %d, want %d", where, is.Owner, d.Owner))
	}
	for name, hash := range d.Files {
		if is.Files[name] != hash {
			why = append(why, fmt.Sprintf("%s with file %s %q, want %q", where, name, is.Files[name], hash))
		}
	}
	for name := range is.Files {
		if _, ok := d.Files[name]; !ok && !d.changing {
			why = append(why, fmt.Sprintf("%s with file %s", where, name))
		}
	}
	return why
}
