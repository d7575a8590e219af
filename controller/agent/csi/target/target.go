// Package target publishes volumes at the target paths that the kubelet chooses: it
// mounts them, verifies mounts, and unmounts them.
package target

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// Targets are the target paths below the kubelet's directory. Its methods may be
// called from many goroutines; calls for one path wait for each other.
type Targets struct {
	kubelet string
	pools   []string // the directories of the pools
	locks   bounded.NameLocks
	asked   bounded.NameLocks // of those whose statistics are being read
}

// New returns the targets below the kubelet's directory, of the volumes in these pools.
func New(kubelet string, pools ...string) *Targets { return &Targets{kubelet: kubelet, pools: pools} }

// Target is a target path that one call has for itself. The caller closes it.
type Target struct {
	mount  *mount.Target
	unlock func()

	// Pod is the UID of the pod that the path is for, PV the name of the PV or, for
	// an inline volume, the pod's name for it. Both are empty if the path is not one
	// that the kubelet chooses.
	Pod, PV string
}

// Open opens the directory of the target and waits until no other call has the target. It changes
// nothing. The error is mount.ErrTarget, mount.ErrParent or a status.
func (t *Targets) Open(path string) (*Target, error) {
	m, err := mount.OpenTarget(t.kubelet, path)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(&t.locks, path)
	if err != nil {
		m.Close()
		return nil, err
	}
	opened := &Target{mount: m, unlock: unlock}
	opened.Pod, opened.PV = t.Parse(path)
	return opened, nil
}

// Close lets other calls have the target.
func (t *Target) Close() {
	t.unlock()
	t.mount.Close()
}

// Parse returns what a target path of the kubelet names; see Target. Such a path is
// <kubelet>/pods/<pod's UID>/volumes/kubernetes.io~csi/<name>/mount, see GetPath of
// pkg/volume/csi/csi_mounter.go in Kubernetes. Tests and other orchestrators choose other paths.
func (t *Targets) Parse(path string) (pod, pv string) {
	below, found := strings.CutPrefix(path, t.kubelet+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) != 6 || parts[0] != "pods" || parts[2] != "volumes" || parts[3] != "kubernetes.io~csi" ||
		parts[5] != "mount" {
		return "", ""
	}
	return parts[1], parts[4]
}

// Unpublish unmounts the volume from the target, verifies that, and removes the empty target. It
// does nothing if the volume is not published there. It needs neither the pool nor the record.
//
// At a target of the kubelet's form it unmounts whatever is of a pool's filesystem: the
// kubelet has only this driver mount something there. A directory that was moved aside has
// another name, and its pod would stay Terminating.
func (t *Targets) Unpublish(name, path string) error {
	opened, err := t.Open(path)
	if errors.Is(err, mount.ErrParent) {
		return nil // nothing can be mounted in a directory that does not exist
	}
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.mount.Unbind(func(i mount.Info) bool { return shows(i, name) || opened.PV != "" && t.ofPool(i) })
}

// ofPool reports whether the mount is of the filesystem of a pool.
func (t *Targets) ofPool(i mount.Info) bool {
	all, err := mount.Self()
	return err == nil && slices.ContainsFunc(t.pools, func(pool string) bool { return i.OnFilesystemOf(all, pool) })
}

// Statfs returns the statistics of the filesystem that is mounted at the target. The
// error is ENOENT if the volume is not mounted there. While Statfs waits for a disk that
// hangs, other calls have the target, and Unpublish unmounts it. Only one call waits for one
// target: the kubelet asks again and again.
func (t *Targets) Statfs(name, path string) (st unix.Statfs_t, err error) {
	unlock, err := lock(&t.asked, path)
	if err != nil {
		return st, err
	}
	defer unlock()
	f, err := t.copyOf(name, path)
	if err != nil {
		return st, err
	}
	defer f.Close()
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return st, fmt.Errorf("statfs %q: %w", path, err)
	}
	return st, nil
}

// copyOf opens a copy of the volume's mount at the target, which does not keep the target from
// being unmounted. The error is ENOENT if the volume is not mounted there.
func (t *Targets) copyOf(name, path string) (*os.File, error) {
	opened, err := t.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	at, err := opened.mount.Inspect()
	if err != nil {
		return nil, err
	}
	if !at.Mounted || !shows(at.Info, name) {
		return nil, unix.ENOENT
	}
	return opened.mount.OpenCopy()
}

// shows reports whether the mount is of a volume of that name. The mounted directory decides, not
// the record: a volume must come off without its disk or record, or if an older driver mounted it.
func shows(i mount.Info, name string) bool { return path.Base(i.Root) == name }

// lockTimeout is how long a call waits for another call for the same target.
const lockTimeout = 10 * time.Second

// lock waits for a lock of the target and returns the function that frees it. The call before may
// be on a disk that hangs. The error has the code that the CSI spec gives to a pending operation.
func lock(of *bounded.NameLocks, path string) (unlock func(), err error) {
	unlock, ok := of.LockWithin(lockTimeout, path)
	if !ok {
		return nil, status.Errorf(codes.Aborted, "another call for %q has not ended for %s; try again", path, lockTimeout)
	}
	return unlock, nil
}
