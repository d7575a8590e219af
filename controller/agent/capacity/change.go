package capacity

import (
	"math/bits"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// sample is the available space of a pool at one time.
type sample struct {
	bytes     int64 // available, rounded down; 0 if the pool is not ready
	allocated int64 // to volumes
	total     int64
	ready     bool
	noInodes  bool   // the filesystem has too few free inodes for another volume
	changes   uint64 // calls of Changed before the sample
	why       string // why the pool is not ready
}

// published is the sample that an object was last compared with.
type published struct {
	sample
	at time.Time // of the last write; zero if this process has not written
}

// significant is the number of leading bits of a size that are published. The rest is
// less than a 1024th: a claim that would fit is refused by the scheduler only if it
// requests more than all but the last thousandth of the available space.
const significant = 11

// roundDown clears all but the significant bits. Round sizes such as 10Gi and 1500Mi do not change.
func roundDown(bytes int64) int64 {
	cut := max(0, bits.Len64(uint64(bytes))-significant)
	return bytes >> cut << cut
}

// The least time for which a published size stays if no volume was created, deleted or
// resized. Other programs on the filesystem change the available space all the time.
const (
	// drift is for a decrease, and for a considerable increase.
	drift = 5 * time.Minute
	// creep is for a small increase: the size is then the lowest of an hour.
	creep = time.Hour
)

// tampered is for a size that another process wrote: it bounds the writes of two agents.
var tampered = timing.Scaled(10 * time.Second)

// due reports whether the sample is to be written at this time to an object of the given size.
func due(size int64, before published, now sample, at time.Time) bool {
	if size == now.bytes {
		return false
	}
	since := at.Sub(before.at)
	if size != before.bytes {
		return since >= tampered
	}
	return since >= delay(before.sample, now)
}

// delay returns for how long a published sample stays before the new one replaces it.
func delay(before, now sample) time.Duration {
	less := now.bytes < before.bytes
	change := now.bytes - before.bytes
	if less {
		change = -change
	}
	// On an almost full disk a few bytes are a large part of the available space.
	large := change >= before.bytes/16 && change >= now.total/1024
	switch {
	case before.ready != now.ready, before.allocated != now.allocated:
		return 0
	case large && less: // other programs fill the disk
		return 0
	case large && before.changes != now.changes: // the trash was purged
		return 0
	case less, change >= before.bytes/64:
		return drift
	}
	return creep
}
