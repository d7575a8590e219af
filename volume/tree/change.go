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
	if err == unix.EPERM && unlock(dir, name) {
		if err := r.wait(); err != nil {
			return err
		}
		err = do()
	}
	return err
}

// wait lets the pace and the context have their say before a change.
func (r *remover) wait() error {
	if r.fatal == nil {
		r.fatal = r.pace.wait(r.ctx)
	}
	return r.fatal
}

// unlock clears the flags of name and of its directory dir that keep even
// root from removing it, and reports whether there were any.
func unlock(dir int, name string) bool {
	above, _ := limit.Clear(dir, sticky)
	return Unlock(dir, name) || above
}

// sticky flags keep an inode from being removed, or anything from a directory.
const sticky = limit.Immutable | limit.AppendOnly

// Unlock clears the immutable and append-only flags of the file or directory
// name in dir, and reports whether there were any. The caller found that
// something it has to move or remove answers EPERM.
func Unlock(dir int, name string) bool {
	fd, err := openFlags(dir, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	changed, err := limit.Clear(fd, sticky)
	return changed && err == nil
}

// clearInherit reports whether the directory handed down its project ID, and
// now does not any more.
func clearInherit(fd int) bool {
	changed, err := limit.Clear(fd, limit.ProjectInherit)
	return changed && err == nil
}
