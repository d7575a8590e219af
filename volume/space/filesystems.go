//go:build linux

package space

import (
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
)

// Member is a pool of this process.
type Member interface {
	Ledger() *Ledger
	// Read appends a reading of the pool's counters to before. It must not wait for other calls:
	// two pools that wait for each other here, and a third call that waits to reopen one of them,
	// would be a deadlock. If it would have to wait, it returns before unchanged.
	Read(c *bounded.Call, before []Reading) []Reading
}

// Filesystems are the pools of one process. Those on one filesystem share its space: what
// is allocated in one is not available in another.
type Filesystems struct {
	pools []Member

	// mu makes a check and its allocation one step for all pools. It is held for sums over memory
	// only, never while a disk is read. Its holder may take the mu of one ledger after the other.
	mu    sync.Mutex
	rises map[string]*rise // by filesystem; guarded by mu
}

// NewFilesystems joins the ledgers of these pools.
func NewFilesystems(pools ...Member) *Filesystems {
	return &Filesystems{pools: pools, rises: map[string]*rise{}}
}

// others returns the pools but that of l on a filesystem; none for "".
func (f *Filesystems) others(l *Ledger, at string) (all []Member) {
	for _, p := range f.pools {
		if other := p.Ledger(); other != l && at != "" && other.where() == at {
			all = append(all, p)
		}
	}
	return all
}

// elsewhere returns the allocations of the other pools on the filesystem of l, and the
// measured use of their volumes. The caller holds mu.
func (f *Filesystems) elsewhere(l *Ledger) others {
	var ledgers []*Ledger
	for _, p := range f.others(l, l.where()) {
		ledgers = append(ledgers, p.Ledger())
	}
	return sumOf(ledgers)
}

// Recorded returns how many volumes on the filesystem of l are recorded with the quota
// ID, in its own pool and in the other pools of the process.
func (f *Filesystems) Recorded(l *Ledger, at string, id uint64) int {
	n := l.records.WithQuotaID(id)
	for _, p := range f.others(l, at) {
		n += p.Ledger().records.WithQuotaID(id)
	}
	return n
}

// Space returns the space of the pool of l.
func (f *Filesystems) Space(filesystem string, l *Ledger, st *unix.Statfs_t) Space {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spaceLocked(filesystem, l, st, 0)
}

// spaceLocked is Space for a caller that holds mu. own are external bytes that a volume brings with it.
func (f *Filesystems) spaceLocked(filesystem string, l *Ledger, st *unix.Statfs_t, own int64) Space {
	risen, elsewhere := f.saw(filesystem, st), f.elsewhere(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(st, elsewhere, risen, own)
}

// Request asks for the allocation of a volume.
type Request struct {
	Name  string
	Bytes int64 // the allocation
	// Wanted are the bytes of it that are new.
	Wanted int64
	// Own are bytes of the volume that are on the disk and external until it has the allocation.
	Own int64
}

// Allocate allocates bytes to a volume whose record does not have them yet. It returns a SpaceError
// if the new ones of them are not available. The check and the allocation are one step for all pools
// of the process, so two calls cannot both get the last bytes. release gives back an allocation that
// no record took over.
func (f *Filesystems) Allocate(filesystem string, l *Ledger, st *unix.Statfs_t, r Request) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.spaceLocked(filesystem, l, st, r.Own).Check(r.Wanted); err != nil {
		return nil, err
	}
	return l.Reserve(r.Name, r.Bytes), nil
}
