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
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Get returns the volume if it is ready or bound: one that is being made or
// removed right now is ErrNotFound. Missing tells whether its directory is
// there. A record that cannot be understood is ErrDamaged.
func (p *Pool) Get(name string) (Volume, error) {
	const op = "get volume"
	if err := p.checkName(name); err != nil {
		return Volume{}, fault.Failed(op, name, err)
	}
	var v Volume
	err := p.enter(op, func(c *call) error {
		if err := p.records.Damage(name); err != nil {
			return err
		}
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		there, err := file.IsDir(c.Base, name)
		v = p.volume(c, r, !there)
		return err
	})
	if err != nil {
		return Volume{}, fault.Failed(op, name, err)
	}
	return v, nil
}

// ByPV returns the volume that the PV names, as Get does. A name that no
// record has, the empty one among them, is ErrNotFound.
func (p *Pool) ByPV(pv string) (Volume, error) {
	const op = "get volume of PV"
	var v Volume
	err := p.enter(op, func(c *call) error {
		found := p.records.Sorted(func(r Record) bool { return pv != "" && r.PV == pv && r.InPlace() })
		if len(found) == 0 {
			return ErrNotFound
		}
		there, err := file.IsDir(c.Base, found[0].Name)
		v = p.volume(c, found[0], !there)
		return err
	})
	if err != nil {
		return Volume{}, fault.Failed(op, pv, err)
	}
	return v, nil
}

// List returns the volumes that are ready or bound, sorted by name.
func (p *Pool) List() ([]Volume, error) {
	const op = "list volumes"
	var all []Volume
	err := p.visit(op, func(c *call) error {
		for _, r := range p.records.InPlace() {
			c.Progress()
			there, err := file.IsDir(c.Base, r.Name)
			if err != nil {
				return err
			}
			all = append(all, p.volume(c, r, !there))
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

func (p *Pool) volume(c *call, r Record, missing bool) Volume {
	return Volume{
		Record: r, Path: p.path + "/" + r.Name, Missing: missing,
		QuotaEnforced: c.quotas.Enforced(r), NotEnforced: c.quotas.NotEnforced(r),
	}
}

// Remembered returns the record of a volume as this process knew it last, even
// while the pool is not ready. Only Get and Pin look at the disk; this serves
// whoever has to decide without it.
func (p *Pool) Cached(name string) (Record, bool) { return p.records.Get(name) }

// States counts the volumes by state, also those that List does not return:
// Creating and Deleting ones, of which a call is under way or left something
// half done. A volume that is in the trash with its record is none of them.
// Every state has a count. It asks memory alone.
func (p *Pool) States() map[State]int {
	counts := map[State]int{Creating: 0, Ready: 0, Bound: 0, Deleting: 0}
	p.records.Each(func(r Record) { counts[r.State]++ })
	return counts
}

// Pinned is a volume that stays in place while Pin lasts.
type Pinned struct {
	Volume
	// Dir is the volume's own directory, opened with O_PATH. It is closed when
	// Pin returns.
	Dir *os.File
	// MountedAt are the points of the mounts that use the volume: on it, in it
	// or from it.
	MountedAt []string
}

// Pin calls do with the volume while nobody else works on it: it can be
// neither deleted nor made meanwhile. Whoever mounts a volume pins it, so
// that Delete sees the mount or the mount finds nothing. do must not call the
// pool. Pin waits for do, once that is called, for as long as it takes.
//
// The error is ErrNotFound where the volume or its directory is not there,
// ErrConflict where a file or a link is in the directory's place, ErrInUse
// where something is mounted over it; or what do returned.
func (p *Pool) Pin(name string, do func(Pinned) error) error {
	return p.on("use volume", name, func(c *call) error {
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
		return c.Callback(func() error {
			return do(Pinned{Volume: p.volume(c, r, false), Dir: dir, MountedAt: points})
		})
	})
}

// Unrecorded is a directory of the pool that no record knows.
type Unrecorded struct {
	Name string
	// InUse is true where something is mounted on it, in it or from it.
	InUse bool
}

// Unrecorded returns the directories of the pool that no record knows, by name.
// They are not ours: nothing ever touches them. Other pools inside this one are
// not among them, nor are names that no volume can have.
func (p *Pool) Unrecorded() ([]Unrecorded, error) {
	const op = "list what has no record"
	var all []Unrecorded
	err := p.visit(op, func(c *call) error {
		names, err := c.Children()
		if err != nil {
			return err
		}
		for _, name := range names {
			if p.checkName(name) != nil || p.records.Has(name) {
				continue
			}
			c.Progress()
			u, ok, err := p.unrecorded(c, name)
			if err != nil {
				return err
			}
			if ok {
				all = append(all, u)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// unrecorded looks again while nobody works on the name: what was listed may
// have been a volume on its way out.
func (p *Pool) unrecorded(c *call, name string) (u Unrecorded, ok bool, err error) {
	unlock, err := p.names.Lock(c.Call, name)
	if err != nil {
		return u, false, err
	}
	defer unlock()
	if p.records.Has(name) || c.HoldsPool(name) {
		return u, false, nil
	}
	if ok, err = file.IsDir(c.Base, name); !ok || err != nil {
		return u, false, err
	}
	points, err := c.MountPoints(name)
	return Unrecorded{Name: name, InUse: len(points) > 0}, true, err
}

// HasDirectory reports whether the pool has a directory of that name, whatever
// the records say.
func (p *Pool) HasDirectory(name string) (bool, error) {
	const op = "look at directory"
	if err := p.checkName(name); err != nil {
		return false, fault.Failed(op, name, err)
	}
	there := false
	err := p.enter(op, func(c *call) (err error) {
		there, err = file.IsDir(c.Base, name)
		return err
	})
	return err == nil && there, fault.Failed(op, name, err)
}

// Warnings returns what an administrator should know of an open pool: a
// directory that the node's other users can enter, and what the last start
// found and left alone. None of it keeps the pool from working.
func (p *Pool) Warnings() []string {
	var loose []string
	open := false
	err := p.dir.Look("look at pool", func(d *pooldir.Dir) {
		open, loose = true, pooldir.LooseMode(d.Base, p.path)
	})
	if err != nil || !open {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(loose, p.notes...)
}

// Damaged returns the records that cannot be understood, with the reason, in
// the order of their names. They are left as they are, and so are their
// volumes.
func (p *Pool) Damaged() []string { return p.records.Damaged() }

// Health returns how the volumes are that are in place and published, by name.
// A volume is published while some mount shows a directory of its name, on
// whatever disk. It costs one look at each of their directories, and one at
// the filesystem and at the mounts for all.
//
// While the pool is not ready, the answer is about the volumes that this
// process remembers, and says why. The error is of the operating system, where
// it does not say what is mounted.
func (p *Pool) Health() ([]health.Health, error) {
	const op = "examine volumes"
	var all []health.Health
	err := p.visit(op, func(c *call) (err error) {
		all, err = health.Examine(healthPool{p, c}, c.Dir, c.Progress)
		return err
	})
	if errors.Is(err, ErrNotReady) {
		unready, err := health.Unready(healthPool{Pool: p}, err)
		return unready, fault.Failed(op, p.path, err)
	}
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// healthPool is the pool as package health sees it, in one call.
type healthPool struct {
	*Pool
	c *call
}

func (e healthPool) InPlace() []Record { return e.records.InPlace() }

func (e healthPool) ReadCounters() { e.readCounters(e.c) }

func (e healthPool) Use(volume string) (use space.Use, lost string) {
	r, _ := e.records.Get(volume)
	return e.ledger.Use(r), e.quotas.Lost(volume)
}
