package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// Visit is called for the top of a walk and for each entry below it, a directory before its
// entries. It gets the entry's name, its directory at, and the result of statx(2). The tenant may
// have given the name to another inode since. An error ends the walk.
type Visit func(at int, name string, st *unix.Statx_t) error

// Walk visits the directory name in dir and everything below it. It visits no mount and follows no
// link. It may miss what is added or removed meanwhile. It calls the pace for all but the top.
//
// The error is ENOENT if the name does not exist, ELOOP or ENOTDIR if it is a link or a file, and
// EXDEV if it is a mount point.
func Walk(ctx context.Context, dir int, name string, pace Pace, enter Visit) error {
	w := walker{ctx: ctx, pace: pace, enter: enter}
	fd, err := OpenDir(dir, name)
	if err != nil {
		return pathError("read", name, err)
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	if err == nil {
		err = w.enter(dir, name, &st)
	}
	if err != nil {
		unix.Close(fd)
		return pathError("read", name, err)
	}
	var t trail
	defer t.close()
	if err = t.down(fd); err == nil {
		err = t.walk(w.visit, func() error { return nil })
	}
	return pathError("read", name, err)
}

type walker struct {
	ctx   context.Context //nolint:containedctx // of one call
	pace  Pace
	enter Visit
}

// visit visits one entry, and opens it if it is a directory. It does nothing if the entry is gone,
// or if a link or a mount has replaced it.
func (w *walker) visit(dir int, name string) (into int, err error) {
	if err := w.pace.wait(w.ctx); err != nil {
		return -1, err
	}
	var st unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if err == unix.ENOENT {
		return -1, nil
	}
	if err != nil {
		return -1, pathError("read", name, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return -1, nil
	}
	if err := w.enter(dir, name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, err
	}
	switch fd, err := OpenDir(dir, name); err {
	case nil:
		return fd, nil
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return -1, nil
	default:
		return -1, pathError("read", name, err)
	}
}
