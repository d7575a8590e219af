// Package volumequota sets the quotas of recorded volumes, and checks that they are in force.
// Package quota has the kernel's mechanisms; it knows directories and IDs, and no records.
//
//	quotas.go    the quotas of one pool, and why the kernel enforces one no longer
//	set.go       sets the quota of a volume, and reads what the kernel counts
//	match.go     sets it again if another is in force
//	snapshot.go  makes a volume as a snapshot of another one, with its quota
package volumequota

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Config describes the pool of Quotas.
type Config struct {
	Records *record.Store
	// Recorded returns how many volumes on a filesystem have a quota ID, in all pools.
	Recorded func(filesystem string, id uint64) int
	// Copied returns how many bytes of a volume's blocks its copies may have, in all pools; see Loose. sure
	// is false if there may be more.
	Copied func(record.Record) (bytes int64, sure bool)
	// CopyShares reports whether a volume that was made as a copy may share blocks with its source.
	CopyShares func(record.Record) bool
	// EnableBtrfs turns on simple quotas on a btrfs that has none; see quota.Enable.
	EnableBtrfs bool
	// Step is called before each change to the disk, with its name.
	Step func(name string)
	// Note shows the administrator a text, as a log line and in inspect.
	Note func(text string)
}

// Quotas are the quotas of the volumes of one pool. Methods may be called from many goroutines.
type Quotas struct {
	config Config

	mu      sync.Mutex        // guards what follows
	support quota.Support     // when the pool was opened last
	lost    map[string]string // by volume: why the kernel does not enforce its quota
	loose   map[string]bool   // see Loose
}

// New returns the quotas of a pool that is not open yet.
func New(c Config) *Quotas {
	return &Quotas{config: c, lost: map[string]string{}, loose: map[string]bool{},
		support: quota.Support{Method: quota.MethodNone, Reason: "the pool has not been opened yet"}}
}

// Support returns which quotas the filesystem enforced when the pool was opened last.
func (q *Quotas) Support() quota.Support {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.support
}

// Reset removes what Lost returns for all volumes. The caller has read the records again.
func (q *Quotas) Reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost, q.loose = map[string]string{}, map[string]bool{}
}

// Loose returns the volumes whose quota in force is larger than their size; see Dir.extra. Once that is
// nothing any more, Match lowers the quota as the count falls.
func (q *Quotas) Loose() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.loose))
}

func (q *Quotas) setLoose(name string, loose bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if loose {
		q.loose[name] = true
	} else {
		delete(q.loose, name)
	}
}

// Forget removes what Lost returns for a volume. It does nothing while the volume has a record.
func (q *Quotas) Forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, there := q.config.Records.Get(name); !there {
		delete(q.lost, name)
		delete(q.loose, name)
	}
}

// Lost returns why the kernel no longer enforces a volume's quota; "" if it does.
func (q *Quotas) Lost(name string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost[name]
}

// setLost stores why a volume's directory does not have the ID of its record; nil if it
// has. The caller holds mu.
func (q *Quotas) setLost(name string, why error) {
	if why == nil {
		delete(q.lost, name)
		return
	}
	q.lost[name] = fmt.Sprintf("it is not held to its size, because its directory is not counted for it: %v; "+
		"the agent tries to mend that when it starts, and when the volume grows", why)
}

// setLostOf is setLost. It does nothing if the volume has been deleted or replaced.
func (q *Quotas) setLostOf(r record.Record, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now, ok := q.config.Records.Get(r.Name); ok && now.Same(r) {
		q.setLost(r.Name, why)
	}
}

// Open enables quotas on the filesystem of an open pool directory, if the configuration allows
// that, and then probes which ones the filesystem enforces. The notes are for the administrator.
func (q *Quotas) Open(d *pooldir.Dir) (opened *Dir, notes []string, err error) {
	st, err := d.Statfs()
	if err != nil {
		return nil, nil, err
	}
	if q.config.EnableBtrfs && uint32(st.Type) == unix.BTRFS_SUPER_MAGIC {
		q.config.Step("open.quota")
		if err := quota.Enable(d.Base); err != nil {
			notes = append(notes, fmt.Sprintf("quotas cannot be turned on: %v", err))
		}
	}
	enforcer, err := quota.Probe(d.Base, quota.Hooks{
		Step:  func(part string) { q.config.Step("quota." + part) },
		Taken: func(id uint64) bool { return q.config.Recorded(d.Filesystem, id) > 0 },
	})
	if err != nil {
		return nil, nil, err
	}
	support, privileged := enforcer.Support(), administers()
	if support.Method != quota.MethodNone && !privileged {
		support = quota.Support{Method: quota.MethodNone,
			Reason: "the process lacks the capability SYS_ADMIN, without which the kernel sets no quota; give it to the " +
				"container"}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.support = support
	_, snapshots := enforcer.(quota.Snapshotter)
	return &Dir{Support: support, quotas: q, dir: d, enforcer: enforcer, block: st.Bsize,
		subvolumes: snapshots && privileged}, notes, nil
}

// administers reports whether the process may set quotas, and remove subvolumes: quotactl(2), and the
// calls for the quotas and subvolumes of btrfs, require CAP_SYS_ADMIN.
func administers() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&head, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Validate returns ErrInvalid for a quota that no filesystem can enforce.
func Validate(policy record.QuotaPolicy, inodes uint64) error {
	switch policy {
	case record.QuotaBestEffort, record.QuotaRequired, record.QuotaNone:
	default:
		return fmt.Errorf("%w: the quota policy %q is not known; there are required, best-effort (empty) and none",
			fault.ErrInvalid, string(policy))
	}
	if policy == record.QuotaNone && inodes > 0 {
		return fmt.Errorf("%w: a quota of %d inodes is requested, and no quota", fault.ErrInvalid, inodes)
	}
	return nil
}

// Check returns ErrNoQuotas if the policy requires a quota that the filesystem does not enforce.
func Check(support quota.Support, policy record.QuotaPolicy, inodes uint64) error {
	switch {
	case policy != record.QuotaRequired:
	case support.Method == quota.MethodNone:
		return fmt.Errorf("%w: %s", fault.ErrNoQuotas, support.Reason)
	case inodes > 0 && !support.Inodes:
		return fmt.Errorf("%w: %d inodes are requested, and %s does not count them", fault.ErrNoQuotas, inodes,
			support.Method)
	}
	return nil
}
