package volume

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// Config configures a pool. New validates it.
type Config struct {
	Name string // the pool's name, as classes select it
	Path string // absolute; a relative path resolves against /
	// Mount is the directory, Path itself or one above it, that must be a mount point of
	// the host before the pool creates anything; "" requires none. See mount.OfHost.
	Mount string
	// Mode is the mode of new volumes whose Spec has none, whatever the umask; 0 means 0777.
	Mode record.Mode
	// Label is the SELinux label of new volume directories: pooldir.LabelAuto sets
	// pooldir.DefaultLabel where the filesystem carries labels, "" sets none.
	Label string
	// Reserve is disk space kept free, in bytes; volumes cannot use it.
	Reserve int64
	// Overcommit is how many times the space may be allocated; 0 means 1.
	Overcommit float64
	// Inner are names in this pool that belong to pools inside it.
	Inner []string
	// PurgeRate is how many files the purge may remove a second; 0 is no bound.
	PurgeRate int
	// CopyRate is how many bytes a second a clone may write that shares no blocks with its source; 0 is no
	// bound.
	CopyRate int64
	// TrashRetention is for how long a deleted volume is kept, by the running time of agents, so that
	// Undelete can bring it back; 0 keeps none. TrashRetentionMax bounds what a Spec may ask for.
	TrashRetention, TrashRetentionMax time.Duration
	// Running returns the running time of the process; tests have an invented clock. nil is by a clock
	// that no user can set.
	Running func() time.Duration
	// EnableBtrfsQuota turns on simple quota on a btrfs that has none. It
	// changes the filesystem for good; see quota.Enable.
	EnableBtrfsQuota bool
	// NotOffered is the reason why this pool is not served; "" serves it. The process
	// never opens such a pool and changes nothing at its path: every call returns an
	// ErrNotReady with this reason.
	NotOffered string
	// Selected returns whether the pool belongs on this node, and why not; nil is pooldir.Selected. It is
	// called whenever the pool is opened, and must not call the pool.
	Selected func() (pooldir.Selection, string)
	// Holder names this process to another one that finds the pool locked.
	Holder string
	// Expected returns what the PVs of this node show of this pool; nil is nothing. It
	// is called whenever the pool is opened, and must not call the pool.
	Expected func() pooldir.Expected
	// Patience is how long a call waits for the disk until it returns an error. A little
	// earlier the pool refuses new calls. 0 means six seconds.
	Patience time.Duration
	// Step is called before each change to the disk, with its name; tests stop there. It
	// must not call the pool. nil does nothing.
	Step func(name string)
	// Figures changes the figures of the filesystem; tests have invented disks. nil changes nothing.
	Figures func(*unix.Statfs_t)
	// Mounted returns nil if Mount is a mount point of the host; tests have invented disks. nil asks
	// the kernel.
	Mounted func(dir string) error
}

// Pool is a directory whose children are volumes. A Pool changes nothing outside that
// directory, whatever name it is given. Methods may be called from many goroutines; calls
// for one volume wait for each other.
//
// Every method that needs the disk first checks that the path still leads to the directory
// that was opened. If not, it reopens the pool; if that fails, it returns ErrNotReady and
// changes nothing. If the disk does not answer, it returns ErrNotReady too, and its work
// continues when the disk answers; see package bounded.
type Pool struct {
	config Config
	path   string // absolute and clean

	dir *pooldir.Opener // keeps the directory open
	// openQuotas is written while the directory is opened, and read in calls on it.
	openQuotas *volumequota.Dir

	filesystems atomic.Pointer[space.Filesystems] // the pools of the process, this one among them
	siblings    atomic.Pointer[[]*Pool]           // the same, as NewPools joined them
	names       bounded.NameLocks
	trash       *trash.Trash
	kept        *trash.Index // the deleted volumes that can be brought back
	room        *trash.Room  // made by removing them early

	records *record.Store
	ledger  *space.Ledger
	quotas  *volumequota.Quotas

	clones  *cloneJobs
	sharing bounded.Turns // one write of sharedName at a time

	seen sync.Map // names of the volumes whose PV was seen since the pool was opened

	mu           sync.Mutex              // guards the following fields
	notes        []string                // of recovery, for an administrator
	sharedOnDisk map[string]space.Shared // what sharedName has
	keptSaved    time.Duration           // the running time of the last write of trash.SavedName
}

// New validates the configuration and returns a pool that is not open yet. It does not use
// the disk; Check and Open do. The error is an ErrInvalid.
func New(c Config) (*Pool, error) {
	if err := c.check(); err != nil {
		return nil, fault.Failed("configure pool", c.Path, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if c.Overcommit == 0 {
		c.Overcommit = 1
	}
	if c.Mode == 0 {
		c.Mode = 0o777
	}
	if c.Patience == 0 {
		c.Patience = bounded.DefaultPatience
	}
	if c.Running == nil {
		begin := time.Now()
		c.Running = func() time.Duration { return time.Since(begin) }
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	p := &Pool{config: c, path: filepath.Join("/", c.Path), trash: trash.New(c.PurgeRate, c.Step),
		kept: trash.NewIndex(c.Running), room: trash.NewRoom(c.Running), clones: newCloneJobs(),
		sharing: bounded.OneAtATime()}
	p.records = record.NewStore(p.left)
	p.ledger = space.NewLedger(p.records, c.Reserve, c.Overcommit)
	p.quotas = volumequota.New(volumequota.Config{
		Records: p.records, EnableBtrfs: c.EnableBtrfsQuota, Step: c.Step, Note: p.note,
		Copied: p.copiedBytes, CopyShares: p.copyShares,
		Recorded: func(filesystem string, id uint64) int { return p.filesystems.Load().Recorded(p.ledger, filesystem, id) },
	})
	p.dir = pooldir.New(p.dirConfig())
	p.filesystems.Store(space.NewFilesystems(member{p}))
	return p, nil
}

func (c *Config) check() error {
	switch {
	case c.Path == "":
		return fmt.Errorf("the path is empty; name a directory of its own for volumes")
	case c.Mount != "" && !above(c.Mount, c.Path):
		return fmt.Errorf("the mount point %s is neither the pool's directory nor one above it", c.Mount)
	case c.Reserve < 0:
		return fmt.Errorf("the reserve is %d bytes; it cannot be negative", c.Reserve)
	case c.Overcommit < 0 || math.IsNaN(c.Overcommit) || math.IsInf(c.Overcommit, 0):
		return fmt.Errorf("the overcommit ratio is %v; it is a positive number", c.Overcommit)
	case c.Patience < 0:
		return fmt.Errorf("the patience is %s; it cannot be negative", c.Patience)
	case c.TrashRetention < 0 || c.TrashRetentionMax < 0:
		return fmt.Errorf("deleted volumes are kept for %s, at most %s; neither can be negative", c.TrashRetention,
			c.TrashRetentionMax)
	case c.CopyRate < 0:
		return fmt.Errorf("the copy rate is %d bytes a second; it cannot be negative", c.CopyRate)
	case c.PurgeRate < 0:
		return fmt.Errorf("the purge rate is %d files a second; it cannot be negative", c.PurgeRate)
	}
	for _, name := range c.Inner {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("inner pool: %w", err)
		}
	}
	return c.Mode.Check()
}

// above reports whether a directory other than the root is path or above it.
func above(dir, path string) bool {
	dir, path = filepath.Join("/", dir), filepath.Join("/", path)
	return dir != "/" && (path == dir || strings.HasPrefix(path, dir+"/"))
}

// Name returns the pool's name as configured.
func (p *Pool) Name() string { return p.config.Name }

func (p *Pool) title() string {
	if p.config.Name == "" {
		return p.path
	}
	return fmt.Sprintf("pool %s in %s", p.config.Name, p.path)
}

// Path returns the pool's directory as configured, absolute and clean, with its links.
func (p *Pool) Path() string { return p.path }

// Quotas returns which quotas the filesystem of the pool enforces: as it was when
// the pool was opened last, and none before.
func (p *Pool) Quotas() quota.Support { return p.quotas.Support() }

// CheckQuota returns ErrNoQuotas if Create would, by what the last opening of the pool found.
func (p *Pool) CheckQuota(s Spec) error {
	return volumequota.Check(p.quotas.Support(), s.Quota, s.Inodes)
}

// NotOffered returns why the pool is not served, as configured or because it is Elsewhere; "" if it is
// served.
func (p *Pool) NotOffered() string { return cmp.Or(p.config.NotOffered, p.dir.Elsewhere()) }

// Elsewhere returns why the pool is one of other nodes; "" if it belongs on this one, or is there.
func (p *Pool) Elsewhere() string { return p.dir.Elsewhere() }

// NotSelected returns why the pool gets no new volumes: it belongs on other nodes, and may be here all
// the same; "" if it gets them.
func (p *Pool) NotSelected() string {
	if p.config.Selected == nil {
		return ""
	}
	if s, why := p.config.Selected(); s == pooldir.NotSelected {
		return why
	}
	return ""
}

// ID returns the pool's identity, a UUID; "" until it was open for the first time.
func (p *Pool) ID() string { return p.dir.ID() }

func (p *Pool) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, text)
}

// unnote removes the notes that begin like this.
func (p *Pool) unnote(begin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = slices.DeleteFunc(p.notes, func(n string) bool { return strings.HasPrefix(n, begin) })
}
