package capacity

import (
	"math/bits"
	"time"
)

// level is what a pool can promise, as it was when it was asked.
type level struct {
	bytes    int64 // rounded down; 0 where the pool is not ready
	promised int64 // to volumes
	total    int64
	ready    bool
	told     uint64 // how often Changed was called before
}

// published is what an object says, and what else was so when it was decided
// on.
type published struct {
	level
	at time.Time // when it was last written, zero where this process has not
}

// kept is how many leading bits of a number are published. What is cut off is
// less than a 1024th of it: a claim that would fit is turned away only if it
// wants the last thousandth of what is left.
const kept = 11

// roundDown sets the bits behind the leading ones to zero. Round sizes, such as
// 10Gi and 1500Mi, stay what they are.
func roundDown(bytes int64) int64 {
	cut := max(0, bits.Len64(uint64(bytes))-kept)
	return bytes >> cut << cut
}

// How long a number that was written stays, at the least, where no volume and
// no disk of ours came or went: what others do on the filesystem moves it all
// the time.
const (
	// drift is for less, and for considerably more.
	drift = 5 * time.Minute
	// creep is for little more: the number then is the lowest of an hour.
	creep = time.Hour
	// tampered is for a number that somebody else wrote. It keeps two agents
	// of one node from writing every second.
	tampered = 10 * time.Second
)

// due reports whether what the pool can promise now is to be written to an
// object that says says, at this time.
func due(says int64, before published, now level, at time.Time) bool {
	if says == now.bytes {
		return false
	}
	since := at.Sub(before.at)
	if says != before.bytes {
		return since >= tampered
	}
	return since >= patience(before.level, now)
}

// patience is how long what was published stays before the new level replaces
// it.
func patience(before, now level) time.Duration {
	less := now.bytes < before.bytes
	change := now.bytes - before.bytes
	if less {
		change = -change
	}
	// A few bytes more or less on a full disk are no large change, however
	// much they are of what is left.
	large := change >= before.bytes/16 && change >= now.total/1024
	switch {
	case before.ready != now.ready, before.promised != now.promised:
		return 0
	case large && less: // others fill the disk
		return 0
	case large && before.told != now.told: // trash was purged
		return 0
	case less, change >= before.bytes/64:
		return drift
	}
	return creep
}
