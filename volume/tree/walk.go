package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// Visit is called for the top of a walk and for everything below it, a directory
// before what is in it: name in the directory at, with what statx(2) said of it.
// Somebody else may have the name by now. An error ends the walk.
type Visit func(at int, name string, st *unix.Statx_t) error

// Walk visits the directory name in dir and everything below it. What is
// mounted in it is not visited, and no link is followed. What comes or goes
// meanwhile may be visited or not. The pace is kept for each entry but the top.
//
// A name that is not there is ENOENT, a link or a file in its place ELOOP or
// ENOTDIR, and a mount on it EXDEV.
func Walk(ctx context.Context, dir int, name string, pace Pace, enter Visit) error {
	w := walker{ctx: ctx, pace: pace, enter: enter}
	fd, err := OpenDir(dir, name)
	if err != nil {
		return pathError("look at", name, err)
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	if err == nil {
		err = w.enter(dir, name, &st)
	}
	if err != nil {
		unix.Close(fd)
		return pathError("look at", name, err)
	}
	var t trail
	defer t.close()
	if err = t.down(fd); err == nil {
		err = t.walk(w.visit, func() error { return nil })
	}
	return pathError("look at", name, err)
}

type walker struct {
	ctx   context.Context
	pace  Pace
	enter Visit
}

// visit looks at one entry, and opens it where there is more in it. One that is
// gone, or hidden by a link or a mount by now, is passed over.
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
		return -1, pathError("look at", name, err)
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
		return -1, pathError("look at", name, err)
	}
}
