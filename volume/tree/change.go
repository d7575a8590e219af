package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// change calls do, which changes name in dir, at the pace. If flags of the entry, of dir or of its
// subvolume forbid the change, change clears them and calls do again.
func (r *remover) change(dir int, name string, do func() error) error {
	if err := r.wait(); err != nil {
		return err
	}
	err := do()
	if err != unix.EPERM && err != unix.EROFS {
		return err
	}
	// First, because no other flag can be cleared in a read-only subvolume.
	around := r.clearReadOnly(dir)
	above, _ := quota.ClearFlags(dir, sticky)
	relock, changed := unlock(dir, name)
	defer relock()
	if !changed && !above && !around {
		return err
	}
	if err := r.wait(); err != nil {
		return err
	}
	return do()
}

// errStopped is the error of every step after the pace or the context has ended the work; the
// remover has their error.
var errStopped = errors.New("stopped")

// wait waits for the pace before a change. With errStopped, pace or context ends the work.
func (r *remover) wait() error {
	if r.fatal == nil {
		r.fatal = r.pace.wait(r.ctx)
	}
	if r.fatal != nil {
		return errStopped
	}
	return nil
}

// clearReadOnly makes the btrfs subvolume of dir writable, and reports whether it was read-only. It
// does nothing to the subvolume that contains the tree: an administrator made that read-only.
func (r *remover) clearReadOnly(dir int) bool {
	// No directory that the remover works in is further from a subvolume's root.
	for range maxTops + 1 {
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil || st.Dev == r.outside {
			return false
		}
		if quota.IsSubvolume(st.Ino) {
			changed, err := quota.ClearReadOnly(dir)
			return changed && err == nil
		}
		above, err := openUp(dir)
		if err != nil {
			return false
		}
		defer unix.Close(above)
		dir = above
	}
	return false
}

// sticky has the flags that forbid the removal of an inode or, on a directory, of its entries.
const sticky = quota.Immutable | quota.AppendOnly

// Unlock clears the immutable and append-only flags of the directory name in dir, and the flag of a
// read-only btrfs subvolume if it is one. It reports whether there were any. Callers use it after a
// move or a removal failed with EPERM or EROFS.
func Unlock(dir int, name string) bool {
	relock, changed := unlock(dir, name)
	relock()
	return changed
}

// unlock is Unlock. The caller calls relock after it has removed name. relock restores the flags of
// a file that has another link, which may be in another volume.
func unlock(dir int, name string) (relock func(), changed bool) {
	nothing := func() {}
	path, err := openPath(dir, name)
	if err != nil {
		return nothing, false
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return nothing, false
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		// It is not opened, because opening a device may have an effect.
		changed, err := quota.ClearPath(procPath(path), sticky)
		return nothing, changed && err == nil
	}
	fd, err := reopen(path, unix.O_RDONLY)
	if err != nil {
		return nothing, false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		defer unix.Close(fd)
		return nothing, unlockDir(fd, &st)
	}
	before, err := quota.GetAttr(fd)
	if err == nil {
		changed, err = quota.ClearFlags(fd, sticky)
	}
	if changed = changed && err == nil; !changed || st.Nlink == 1 {
		unix.Close(fd)
		return nothing, changed
	}
	return func() {
		if err := unix.Fstat(fd, &st); err == nil && st.Nlink > 0 {
			_ = quota.SetAttr(fd, before) // an error changes nothing for the caller
		}
		unix.Close(fd)
	}, true
}

// unlockDir is unlock for an open directory. A read-only subvolume comes first:
// no other flag can be cleared in it.
func unlockDir(fd int, st *unix.Stat_t) (changed bool) {
	if quota.IsSubvolume(st.Ino) {
		cleared, err := quota.ClearReadOnly(fd)
		changed = cleared && err == nil
	}
	cleared, err := quota.ClearFlags(fd, sticky)
	return changed || cleared && err == nil
}

// clearInherit ends the inheritance of the directory's project ID, and reports whether it did.
func clearInherit(fd int) bool {
	changed, err := quota.ClearFlags(fd, quota.ProjectInherit)
	return changed && err == nil
}
