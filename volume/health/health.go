package health

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Problem is the condition of a published volume that needs attention; "" if there is none.
type Problem string

// The problems, the gravest first. A volume has the first that applies.
const (
	// PoolNotReady: the pool cannot be used, so the volume cannot be checked.
	PoolNotReady Problem = "PoolNotReady"
	// ReadOnly: the pool's filesystem is mounted read-only.
	ReadOnly Problem = "FilesystemReadOnly"
	// NoDirectory: the volume's directory is missing, or cannot be read.
	NoDirectory Problem = "DirectoryMissing"
	// StaleMount: a pod's mount shows another directory than the volume's.
	StaleMount Problem = "StaleMount"
	// Full: users of the pool's filesystem have no bytes left.
	Full Problem = "FilesystemFull"
	// NoInodes: the pool's filesystem has no free inodes, so no file can be created.
	NoInodes Problem = "InodesExhausted"
	// QuotaLost: the kernel no longer enforces the volume's quota.
	QuotaLost Problem = "QuotaLost"
	// VolumeFull: the volume has used up its quota.
	VolumeFull Problem = "VolumeFull"
)

// A filesystem with less than fullBelow bytes free counts as full: XFS refuses to write
// while it still reports some hundred kilobytes as free.
const fullBelow = 4 << 20

// A volume with less than volumeFullBelow bytes of its quota left counts as full, or with less than
// one part in volumeFullShare if that is smaller. btrfs keeps 16 KiB, a metadata block, of any
// quota, and creates no file while that much is left; XFS and ext4 use the last block.
const (
	volumeFullBelow = 64 << 10
	volumeFullShare = 16
)

// Health is the condition of a published volume.
type Health struct {
	record.Record
	Problem Problem
	// Message describes the problem and what to do; "" without a problem. It has no
	// changing numbers, so that repeated events aggregate.
	Message string
}

// Pool is the part of a pool that Check and Unready need beside the open directory.
type Pool interface {
	Name() string
	Path() string
	InPlace() []record.Record
	// ReadCounters brings Usage up to date.
	ReadCounters()
	// Usage returns the volume's use, and why the kernel does not enforce its quota; "" if it does.
	Usage(volume string) (u space.Usage, lost string)
}

// Unready returns the same problem for every published volume.
func Unready(p Pool, why error) ([]Health, error) {
	problem := PoolNotReady
	if errors.Is(why, pooldir.ErrReadOnly) {
		problem = ReadOnly
	}
	mounts, err := mount.Self()
	return published(p, mounts, mayBelong, func(string, []mount.Info) (Problem, string) {
		return problem, fmt.Sprintf("pool %s in %s: %v", p.Name(), p.Path(), why)
	}), err
}

// Check checks every published volume. It calls progress before each.
func Check(p Pool, d *pooldir.Dir, progress func()) ([]Health, error) {
	mounts, err := mount.Self()
	if err != nil {
		return nil, err
	}
	home, ok := mount.ByID(mounts, d.MountID())
	if !ok {
		return nil, fmt.Errorf("mountinfo has no mount %d, through which the pool is reached", d.MountID())
	}
	if err := pooldir.CheckWrites(home); err != nil {
		return nil, err
	}
	real, err := d.RealPath()
	if err != nil {
		return nil, err
	}
	st, err := d.Statfs()
	if err != nil {
		return nil, err
	}
	p.ReadCounters()
	shows := func(r record.Record, i mount.Info) bool { return mayBelong(r, i) || i.Shows(home, real+"/"+r.Name) }
	return published(p, mounts, shows, func(name string, shown []mount.Info) (Problem, string) {
		progress()
		if there, err := file.IsDir(d.Base, name); err != nil || !there {
			return noDirectory(p, name, err)
		}
		for _, i := range shown {
			if !i.Shows(home, real+"/"+name) {
				return StaleMount, fmt.Sprintf("the mount at %s shows another directory than %s/%s: the disk or the directory "+
					"was replaced; delete the pods that use the volume, so that it is mounted again", i.Point, p.Path(), name)
			}
		}
		if problem, message := exhausted(p, st); problem != "" {
			return problem, message
		}
		return usedUp(p, name)
	}), nil
}

// published calls judge for every volume that is in place and published, with the mounts
// whose root has the volume's name and that may be the volume's.
func published(p Pool, mounts []mount.Info, may func(record.Record, mount.Info) bool,
	judge func(name string, shown []mount.Info) (Problem, string)) (all []Health) {
	byName := map[string][]mount.Info{}
	for _, i := range mounts {
		name := path.Base(i.Root)
		byName[name] = append(byName[name], i)
	}
	for _, r := range p.InPlace() {
		shown := slices.DeleteFunc(byName[r.Name], func(i mount.Info) bool { return !may(r, i) })
		if len(shown) > 0 {
			problem, message := judge(r.Name, shown)
			all = append(all, Health{Record: r, Problem: problem, Message: message})
		}
	}
	return all
}

func noDirectory(p Pool, name string, err error) (Problem, string) {
	if err != nil {
		return NoDirectory, fmt.Sprintf("its directory in %s cannot be reached: %v; check the kernel's log", p.Path(), err)
	}
	return NoDirectory, fmt.Sprintf("its directory %s/%s is not there: restore it from a backup; "+
		"docs/runbooks/HPPVolumesMissing.md has what to look for before it is given up", p.Path(), name)
}

// exhausted checks the filesystem that all volumes of the pool share.
func exhausted(p Pool, st *unix.Statfs_t) (Problem, string) {
	switch {
	case space.Blocks(st.Bavail, st.Frsize) < fullBelow:
		return Full, fmt.Sprintf("the filesystem of pool %s in %s is full: remove data, or give it more space", p.Name(),
			p.Path())
	case st.Files > 0 && st.Ffree == 0: // some, such as btrfs, count none
		return NoInodes, fmt.Sprintf("the filesystem of pool %s in %s has no inodes left: remove files, or move "+
			"volumes to one with more inodes", p.Name(), p.Path())
	}
	return "", ""
}

// usedUp checks a volume's quota, and its usage if the kernel counts it.
func usedUp(p Pool, name string) (Problem, string) {
	u, lost := p.Usage(name)
	if lost != "" {
		return QuotaLost, lost
	}
	if size := u.Volume.Bytes; !u.Exact || size-u.Bytes >= min(volumeFullBelow, size/volumeFullShare) {
		return "", ""
	}
	return VolumeFull, "it is full: remove data in it, or request more in its claim"
}

// ofPod matches a mount point that the kubelet made for a pod: <kubelet>/pods/<UID>/volumes/..., or
// volume-subpaths. See GetPodVolumeDir and getSubpathBindTarget in Kubernetes.
var ofPod = regexp.MustCompile(`/pods/[^/]+/(volumes|volume-subpaths)/`)

// mayBelong reports whether a mount that shows a directory of the volume's name can be a mount of
// the volume. The names of directories prove nothing: a tenant chooses the subPath of a pod, and
// makes a directory of any name in a volume. The kubelet chooses where a PV is mounted.
func mayBelong(r record.Record, i mount.Info) bool {
	point := i.Point
	at := ofPod.FindStringSubmatchIndex(point)
	if at == nil {
		return true // not made for a pod
	}
	if point[at[2]:at[3]] != "volumes" {
		return false
	}
	parts := strings.Split(point[at[1]:], "/") // kubernetes.io~csi/<PV>/mount
	return len(parts) == 3 && parts[0] == "kubernetes.io~csi" && slices.Contains([]string{r.PV, r.Name}, parts[1]) &&
		parts[2] == "mount"
}
