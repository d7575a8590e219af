package record

import "time"

// Source identifies the volume from which another one was copied, as it was when the copy began. A
// name alone proves nothing: the volume may have been deleted and made again since, or given to the
// next claim.
type Source struct {
	Pool    string    `json:"pool,omitempty"` // UUID of the pool that has it
	Volume  string    `json:"volume"`         // its name
	Trash   string    `json:"trash,omitempty"`
	Created time.Time `json:"created"`
	// Namespace and UID are those of its claim.
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Before is the volume of which this one is itself a copy, if it was still there when the copy began:
	// the copy may have blocks of that one, too. Equal does not compare it.
	Before *Source `json:"before,omitempty"`
}

// SourceOf returns what identifies the volume of a record in a pool with that UUID.
func SourceOf(pool string, r Record) Source {
	return Source{Pool: pool, Volume: r.Name, Trash: r.Trash, Created: r.Created,
		Namespace: r.Owner.Namespace, UID: r.Owner.UID}
}

// Equal reports whether both are the same volume of the same claim. nil equals nil alone.
func (s *Source) Equal(other *Source) bool {
	if s == nil || other == nil {
		return s == other
	}
	same := *s
	same.Created, same.Before = other.Created, other.Before
	return same == *other && s.Created.Equal(other.Created)
}

// origin identifies a volume, for whatever claim it is, and after a deletion that was taken back. The pool
// is not in it: it is not known yet while the pool is opened, and names are unique among pools.
type origin struct {
	volume  string
	created int64
}

func originOf(s Source) origin { return origin{s.Volume, s.Created.Unix()} }

func (r Record) origin() origin { return origin{r.Name, r.Created.Unix()} }

// mostBefore is how many volumes a Source has before it at most, so that a chain of copies of copies
// makes no endless records.
const mostBefore = 16

// Chain returns the sources, the nearest first, as one chain. The farthest are left out of a long one.
func Chain(all []Source) (first *Source) {
	all = all[:min(len(all), mostBefore)]
	for i := len(all) - 1; i >= 0; i-- {
		s := all[i]
		s.Before, first = first, &s
	}
	return first
}
