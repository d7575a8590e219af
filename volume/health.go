package volume

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Problem is what is wrong with a published volume; "" where nothing is.
type Problem string

// The problems, the gravest first. A volume has the first that applies.
const (
	// PoolNotReady: the pool cannot be used, so nothing is known of the volume.
	PoolNotReady Problem = "PoolNotReady"
	// ReadOnly: nothing can be written to the pool's filesystem.
	ReadOnly Problem = "FilesystemReadOnly"
	// NoDirectory: the volume's directory is gone, or cannot be looked at.
	NoDirectory Problem = "DirectoryMissing"
	// StaleMount: pods see another directory than the volume's.
	StaleMount Problem = "StaleMount"
	// Full: users of the pool's filesystem have no bytes left.
	Full Problem = "FilesystemFull"
	// NoInodes: no file can be made on the pool's filesystem.
	NoInodes Problem = "InodesExhausted"
	// LimitLost: the kernel does not hold the volume to the limit that it was given.
	LimitLost Problem = "LimitLost"
	// VolumeFull: the volume has used up what it is held to.
	VolumeFull Problem = "VolumeFull"
)

// fullBelow is how many bytes are as good as none: XFS refuses to write while
// it still calls some hundred kilobytes free.
const fullBelow = 4 << 20

// volumeFullBelow is the same of a volume with a limit. btrfs keeps 16 KiB, a
// metadata block, of any limit, and makes no file while it has that much left; XFS
// and ext4 give the last block. Of a small limit it is a share.
const (
	volumeFullBelow = 64 << 10
	volumeFullShare = 16
)

// Health is how a published volume is.
type Health struct {
	Record
	Problem Problem
	// Message says what is wrong and what to do, without numbers that change
	// while the problem does not; "" where nothing is wrong.
	Message string
}

// Health returns how the volumes are that are in place and published, by name.
// A volume is published while some mount shows a directory of its name, on
// whatever disk. It costs one look at each of their directories, and one at
// the filesystem and at the mounts for all.
//
// While the pool is not ready, the answer is about the volumes that this
// process remembers, and says why. The error is of the operating system, where
// it does not say what is mounted.
func (p *Pool) Health() ([]Health, error) {
	const op = "examine volumes"
	var all []Health
	err := p.visit(op, func(h *handle) (err error) {
		all, err = p.examine(h)
		return err
	})
	if errors.Is(err, ErrNotReady) {
		unready, err := p.unready(err)
		return unready, fault.Failed(op, p.path, err)
	}
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// unready says the same of every published volume.
func (p *Pool) unready(why error) ([]Health, error) {
	problem := PoolNotReady
	if errors.Is(why, pooldir.ErrReadOnly) {
		problem = ReadOnly
	}
	mounts, err := mount.Self()
	return p.published(mounts, func(string, []mount.Info) (Problem, string) {
		return problem, fmt.Sprintf("pool %s in %s: %v", p.Name(), p.path, why)
	}), err
}

func (p *Pool) examine(h *handle) ([]Health, error) {
	mounts, err := mount.Self()
	if err != nil {
		return nil, err
	}
	home, ok := mount.ByID(mounts, h.MountID())
	if !ok {
		return nil, fmt.Errorf("mountinfo has no mount %d, through which the pool is reached", h.MountID())
	}
	if err := pooldir.CheckWrites(home); err != nil {
		return nil, err
	}
	real, err := h.RealPath()
	if err != nil {
		return nil, err
	}
	st, err := h.Statfs()
	if err != nil {
		return nil, err
	}
	p.meter(h)
	return p.published(mounts, func(name string, shown []mount.Info) (Problem, string) {
		h.call.Progress()
		if there, err := file.IsDir(h.Base, name); err != nil || !there {
			return p.noDirectory(name, err)
		}
		for _, i := range shown {
			if !i.Shows(home, real+"/"+name) {
				return StaleMount, fmt.Sprintf("what is mounted at %s is another directory than %s/%s: the disk or the directory was replaced meanwhile; "+
					"delete the pods that use it, and they get the right one", i.Point, p.path, name)
			}
		}
		if problem, message := p.exhausted(st); problem != "" {
			return problem, message
		}
		return p.usedUp(name)
	}), nil
}

// published calls judge for every volume that is in place and published, with
// the mounts that show a directory of its name.
func (p *Pool) published(mounts []mount.Info, judge func(name string, shown []mount.Info) (Problem, string)) (all []Health) {
	byName := map[string][]mount.Info{}
	for _, i := range mounts {
		name := path.Base(i.Root)
		byName[name] = append(byName[name], i)
	}
	for _, r := range p.records.InPlace() {
		if shown := byName[r.Name]; len(shown) > 0 {
			problem, message := judge(r.Name, shown)
			all = append(all, Health{Record: r, Problem: problem, Message: message})
		}
	}
	return all
}

func (p *Pool) noDirectory(name string, err error) (Problem, string) {
	if err != nil {
		return NoDirectory, fmt.Sprintf("its directory in %s cannot be reached: %v; the kernel's log may say more", p.path, err)
	}
	return NoDirectory, fmt.Sprintf("its directory %s/%s is not there: somebody removed it; bring it back from a backup, or delete the claim", p.path, name)
}

// exhausted judges the filesystem that all volumes of the pool share.
func (p *Pool) exhausted(st *unix.Statfs_t) (Problem, string) {
	switch {
	case space.Blocks(st.Bavail, st.Frsize) < fullBelow:
		return Full, fmt.Sprintf("the filesystem of pool %s in %s is full: remove data, or give it more space", p.Name(), p.path)
	case st.Files > 0 && st.Ffree == 0: // some, such as btrfs, count none
		return NoInodes, fmt.Sprintf("the filesystem of pool %s in %s has no inodes left: remove files, or make it anew with more inodes", p.Name(), p.path)
	}
	return "", ""
}

// usedUp checks a volume's limit, and its use if the kernel counts it.
func (p *Pool) usedUp(name string) (Problem, string) {
	if stray := p.stray(name); stray != "" {
		return LimitLost, stray
	}
	r, _ := p.records.Get(name)
	if u := p.ledger.Use(r); !u.Exact || r.Bytes-u.Bytes >= min(volumeFullBelow, r.Bytes/volumeFullShare) {
		return "", ""
	}
	return VolumeFull, "it is full: remove data in it, or ask for more in its claim"
}
