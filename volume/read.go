package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/health"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Get returns the volume if it is ready or bound. Missing reports whether its directory is
// gone. The error is ErrNotFound for a volume that is being created or deleted, ErrSetAside if
// its deletion was not finished, and ErrDamaged if the record cannot be understood.
func (p *Pool) Get(name string) (Volume, error) {
	return resultOf(p.withName, "get volume", name, func(c *call) (Volume, error) {
		if err := p.records.Damage(name); err != nil {
			return Volume{}, err
		}
		r, ok := p.records.Get(name)
		switch {
		case ok && r.InTrash():
			return Volume{}, ErrSetAside
		case !ok || !r.InPlace():
			return Volume{}, ErrNotFound
		}
		return p.found(c, r)
	})
}

// ByPV returns the volume that the PV names, as Get does. The error is ErrNotFound for a
// name that is in no record, such as "".
func (p *Pool) ByPV(pv string) (Volume, error) {
	return resultOf(p.withPool, "get volume of PV", pv, func(c *call) (Volume, error) {
		r, ok := p.records.ByPV(pv)
		if !ok {
			return Volume{}, ErrNotFound
		}
		return p.found(c, r)
	})
}

// List returns the volumes that are ready or bound, by name.
func (p *Pool) List() ([]Volume, error) {
	return resultOf(p.withPoolInSteps, "list volumes", p.path, func(c *call) (all []Volume, err error) {
		for _, r := range p.records.InPlace() {
			c.Progress()
			v, err := p.found(c, r)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	})
}

// found returns the volume of a record, and whether its directory is there.
func (p *Pool) found(c *call, r record.Record) (Volume, error) {
	there, err := file.IsDir(c.Base, r.Name)
	return p.volume(c, r, !there), err
}

func (p *Pool) volume(c *call, r record.Record, missing bool) Volume {
	enforced, not := c.quotas.Enforced(r)
	return Volume{Record: r, Path: p.path + "/" + r.Name, Missing: missing, QuotaEnforced: enforced, NotEnforced: not}
}

// Cached returns the record of a volume that this process has in memory, also while the
// pool is not ready. It reads no disk.
func (p *Pool) Cached(name string) (record.Record, bool) { return p.records.Get(name) }

// States counts the volumes by state, those that List does not return included: a call
// works on a Creating or Deleting volume, or left it unfinished. A volume that is in the
// trash with its record does not count. Every state has a count. It reads no disk.
func (p *Pool) States() map[record.State]int {
	counts := map[record.State]int{record.Creating: 0, record.Ready: 0, record.Bound: 0, record.Deleting: 0}
	p.records.Each(func(r record.Record) {
		if r.InTrash() {
			r.State = record.Deleting
		}
		counts[r.State]++
	})
	return counts
}

// Pinned is a volume that stays in place while Pin lasts.
type Pinned struct {
	Volume
	// Dir is the volume's own directory, opened with O_PATH. Pin closes it.
	Dir *os.File
	// MountedAt are the mount points that use the volume: on it, in it or from it.
	MountedAt []string
}

// Pin calls do with the volume and keeps it from being deleted or created meanwhile. Pin
// a volume to mount it: then Delete finds the mount, or do is not called. do must not call
// the pool. Pin waits for do without a bound. It ends copies that are right only while nothing uses
// the volume; see MakeWay.
//
// The error is ErrNotFound if the volume or its directory is not there, ErrConflict if a file or a
// link is in the directory's place, ErrInUse if something is mounted over it, or that of do.
func (p *Pool) Pin(name string, do func(Pinned) error) error {
	return p.withVolume("use volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		if err := c.CheckPlain(name); errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
		} else if err != nil {
			return err
		}
		fd, err := tree.Open(c.Base, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return fault.Path("open", name, err)
		}
		dir := os.NewFile(uintptr(fd), p.path+"/"+name)
		defer dir.Close()
		points, err := c.MountPoints(name)
		if err != nil {
			return err
		}
		p.clones.yield(name)
		return c.Callback(func() error {
			return do(Pinned{Volume: p.volume(c, r, false), Dir: dir, MountedAt: points})
		})
	})
}

// Unrecorded is a directory of the pool without a record.
type Unrecorded struct {
	Name string
	// InUse is true if something is mounted on it, in it or from it.
	InUse bool
}

// Unrecorded returns the directories of the pool without a record, by name. The agent did
// not create them and changes none of them. Pools inside this one do not count, nor do
// names that no volume can have.
func (p *Pool) Unrecorded() ([]Unrecorded, error) {
	const op = "list directories without a record"
	return resultOf(p.withPoolInSteps, op, p.path, func(c *call) (all []Unrecorded, err error) {
		names, err := c.Children()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if p.checkName(name) != nil || p.records.Has(name) {
				continue
			}
			c.Progress()
			u, ok, err := p.unrecorded(c, name)
			if err != nil {
				return nil, err
			}
			if ok {
				all = append(all, u)
			}
		}
		return all, nil
	})
}

// unrecorded checks a name again while no call works on it: a deleted volume may have had it.
func (p *Pool) unrecorded(c *call, name string) (u Unrecorded, ok bool, err error) {
	unlock, err := p.names.Lock(c.Call, name)
	if err != nil {
		return u, false, err
	}
	defer unlock()
	if p.records.Has(name) {
		return u, false, nil
	}
	if pool, err := c.ContainsPool(name); pool && err == nil {
		return u, false, nil
	}
	if ok, err = file.IsDir(c.Base, name); !ok || err != nil {
		return u, false, err
	}
	points, err := c.MountPoints(name)
	return Unrecorded{Name: name, InUse: len(points) > 0}, true, err
}

// HasDirectory reports whether the pool has a directory of that name, with or without a
// record. A volume that is being deleted has none, as Get has no volume: Delete decides
// first, and then moves the directory into the trash.
func (p *Pool) HasDirectory(name string) (bool, error) {
	return resultOf(p.withName, "check directory", name, func(c *call) (bool, error) {
		if r, ok := p.records.Get(name); ok && !r.InPlace() {
			return false, nil
		}
		return file.IsDir(c.Base, name)
	})
}

// Warnings returns what an administrator should know of an open pool: other users of the node can
// enter its directory, or recovery left something alone. The pool works all the same.
func (p *Pool) Warnings() []string {
	var loose []string
	open := false
	err := p.dir.WithOpen("check pool", func(d *pooldir.Dir) {
		open, loose = true, pooldir.LooseMode(d.Base, p.path)
	})
	if err != nil || !open {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(loose, p.notes...)
}

// Damaged returns the records that cannot be understood, with the reason, by name. The
// agent changes neither them nor their volumes.
func (p *Pool) Damaged() []string { return p.records.Damaged() }

// Health returns the condition of each volume that is in place and published, by name. A
// volume is published while a mount shows a directory of its name, on any disk. The call
// checks each of their directories once, and the filesystem and the mounts once for all.
//
// While the pool is not ready, the result is about the volumes in memory, and has the
// reason. The error is of the operating system, if it does not list mounts.
func (p *Pool) Health() ([]health.Health, error) {
	const op = "check volumes"
	all, err := resultOf(p.withPoolInSteps, op, p.path, func(c *call) ([]health.Health, error) {
		return health.Check(healthPool{p, c}, c.Dir, c.Progress)
	})
	if errors.Is(err, ErrNotReady) {
		all, err = health.Unready(healthPool{Pool: p}, errors.Unwrap(err))
		return all, fault.Failed(op, p.path, err)
	}
	return all, err
}

// healthPool is the pool as package health sees it, in one call.
type healthPool struct {
	*Pool
	c *call
}

func (p healthPool) InPlace() []record.Record { return p.records.InPlace() }

func (p healthPool) ReadCounters() { p.readCounters(p.c) }

func (p healthPool) Usage(volume string) (u space.Usage, lost string) {
	r, _ := p.records.Get(volume)
	return p.ledger.Usage(r), p.quotas.Lost(volume)
}
