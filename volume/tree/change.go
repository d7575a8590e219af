package tree

import (
	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/limit"
)

// change does something to name in dir, at the pace. Where flags of the entry
// or of dir forbid it, they are cleared and it is tried again.
func (r *remover) change(dir int, name string, do func() error) error {
	if err := r.wait(); err != nil {
		return err
	}
	err := do()
	if err != unix.EPERM {
		return err
	}
	above, _ := limit.ClearFlags(dir, sticky)
	relock, changed := unlock(dir, name)
	defer relock()
	if !changed && !above {
		return err
	}
	if err := r.wait(); err != nil {
		return err
	}
	return do()
}

// wait lets the pace and the context have their say before a change.
func (r *remover) wait() error {
	if r.fatal == nil {
		r.fatal = r.pace.wait(r.ctx)
	}
	return r.fatal
}

// sticky flags keep an inode from being removed, or anything from a directory.
const sticky = limit.Immutable | limit.AppendOnly

// Unlock clears the immutable and append-only flags of the directory name in
// dir, and reports whether there were any. The caller found that something it
// has to move or remove answers EPERM.
func Unlock(dir int, name string) bool {
	relock, changed := unlock(dir, name)
	relock()
	return changed
}

// unlock is Unlock. The caller calls relock when name is removed: a file that
// has a link left gets its flags back, for that may be in another volume.
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
		// A device is never opened: that alone may set it in motion.
		changed, err := limit.ClearPath(procPath(path), sticky)
		return nothing, changed && err == nil
	}
	fd, err := reopen(path, unix.O_RDONLY)
	if err != nil {
		return nothing, false
	}
	before, err := limit.GetAttr(fd)
	if err == nil {
		changed, err = limit.ClearFlags(fd, sticky)
	}
	if changed = changed && err == nil; !changed || st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Nlink == 1 {
		unix.Close(fd)
		return nothing, changed
	}
	return func() {
		if err := unix.Fstat(fd, &st); err == nil && st.Nlink > 0 {
			_ = limit.SetAttr(fd, before) // nobody could be told
		}
		unix.Close(fd)
	}, true
}

// clearInherit reports whether the directory handed down its project ID, and
// now does not any more.
func clearInherit(fd int) bool {
	changed, err := limit.ClearFlags(fd, limit.ProjectInherit)
	return changed && err == nil
}
