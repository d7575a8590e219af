package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the memory for files with several links. What is beyond it
// counts as the share of each link.
const maxLinks = 1 << 18

// Measure returns how many bytes the directory name in dir takes on disk with
// everything below it: allocated blocks, a file with several links once. What
// is mounted in it is not counted, and no link is followed. Blocks that files
// share (reflinks) count for each of them.
//
// It changes nothing and reads a tree that may change meanwhile, so the
// result is an estimate. With an error it is what was counted so far. A name
// that is not there is ENOENT.
func Measure(ctx context.Context, dir int, name string, pace Pace) (int64, error) {
	fd, err := OpenDir(dir, name)
	if err != nil {
		return 0, pathError("measure", name, err)
	}
	m := &measurer{ctx: ctx, pace: pace, links: map[inode]bool{}}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		unix.Close(fd)
		return 0, pathError("measure", name, err)
	}
	m.count(&st)
	var t trail
	defer t.close()
	if err = t.down(fd); err == nil {
		err = t.walk(m.visit, func() error { return nil })
	}
	return m.bytes, pathError("measure", name, err)
}

type measurer struct {
	ctx   context.Context
	pace  Pace
	bytes int64
	links map[inode]bool // files with several links seen so far
}

// visit counts one entry. One that is gone, or hidden by a link or a mount by
// now, counts as nothing.
func (m *measurer) visit(dir int, name string) (into int, err error) {
	if err := m.pace.wait(m.ctx); err != nil {
		return -1, err
	}
	var st unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if err == unix.ENOENT {
		return -1, nil
	}
	if err != nil {
		return -1, pathError("measure", name, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return -1, nil
	}
	m.count(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, nil
	}
	switch fd, err := OpenDir(dir, name); err {
	case nil:
		return fd, nil
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return -1, nil
	default:
		return -1, pathError("measure", name, err)
	}
}

// count adds an inode, unless another link to it was counted before.
func (m *measurer) count(st *unix.Statx_t) {
	bytes := int64(st.Blocks) * 512
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		switch {
		case m.links[inodeOf(st)]:
			return
		case len(m.links) < maxLinks:
			m.links[inodeOf(st)] = true
		default:
			bytes /= int64(st.Nlink)
		}
	}
	m.bytes += bytes
}
