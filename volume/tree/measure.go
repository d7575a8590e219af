package tree

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxDepth bounds the memory of a measurement: a directory above the one being
// read costs at most one buffer of names.
const maxDepth = 10000

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
	m := &measurer{ctx: ctx, pace: pace, fd: fd, links: map[inode]bool{}}
	defer func() { unix.Close(m.fd) }()
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return 0, pathError("measure", name, err)
	}
	m.count(&st)
	return m.bytes, m.walk(inodeOf(&st))
}

// An inode is a file's identity. On btrfs the device changes inside a tree.
type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// A frame is a directory on the way down to the one being read.
type frame struct {
	id     inode
	offset int64    // where reading goes on
	todo   []string // directories of the last batch that were not entered yet
}

// A measurer goes down a tree with one descriptor, and back up through "..",
// where it looks whether it came back to the directory it left.
type measurer struct {
	ctx   context.Context
	pace  Pace
	fd    int
	bytes int64
	links map[inode]bool // files with several links seen so far
}

func (m *measurer) walk(root inode) error {
	stack := []*frame{{id: root}}
	buf := make([]byte, 8<<10)
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if n := len(top.todo); n > 0 {
			name := top.todo[n-1]
			top.todo = top.todo[:n-1]
			below, err := m.down(name)
			if err != nil {
				return err
			}
			if below != nil {
				stack = append(stack, below)
			}
			if len(stack) > maxDepth {
				return fmt.Errorf("deeper than %d directories", maxDepth)
			}
			continue
		}
		more, err := m.read(top, buf)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		stack = stack[:len(stack)-1]
		if len(stack) > 0 {
			if err := m.up(stack[len(stack)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// read counts the next batch of a directory, and reports whether there was one.
func (m *measurer) read(f *frame, buf []byte) (more bool, err error) {
	if _, err := unix.Seek(m.fd, f.offset, 0); err != nil {
		return false, err
	}
	batch, err := nextNames(m.fd, buf)
	if err != nil || len(batch) == 0 {
		return false, err
	}
	if f.offset, err = unix.Seek(m.fd, 0, 1); err != nil {
		return false, err
	}
	for _, name := range batch {
		if err := m.step(); err != nil {
			return false, err
		}
		dir, err := m.entry(name)
		if err != nil {
			return false, err
		}
		if dir {
			f.todo = append(f.todo, name)
		}
	}
	return true, nil
}

// entry counts one entry and reports whether it is a directory to enter.
func (m *measurer) entry(name string) (dir bool, err error) {
	var st unix.Statx_t
	err = unix.Statx(m.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, pathError("measure", name, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return false, nil
	}
	m.count(&st)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// count adds an inode, unless another link to it was counted before.
func (m *measurer) count(st *unix.Statx_t) {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if m.links[inodeOf(st)] {
			return
		}
		m.links[inodeOf(st)] = true
	}
	m.bytes += int64(st.Blocks) * 512
}

// down enters a directory. It returns nil where that is gone, or hidden by a
// link or a mount by now.
func (m *measurer) down(name string) (*frame, error) {
	fd, err := OpenDir(m.fd, name)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return nil, nil
	default:
		return nil, pathError("measure", name, err)
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		unix.Close(fd)
		return nil, pathError("measure", name, err)
	}
	unix.Close(m.fd)
	m.fd = fd
	return &frame{id: inodeOf(&st)}, nil
}

// up goes back to the directory above.
func (m *measurer) up(to *frame) error {
	fd, err := unix.Openat(m.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("measure", "..", err)
	}
	unix.Close(m.fd)
	m.fd = fd
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return pathError("measure", "..", err)
	}
	if inodeOf(&st) != to.id {
		return fmt.Errorf("directories were moved while they were measured")
	}
	return nil
}

func (m *measurer) step() error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if m.pace == nil {
		return nil
	}
	return m.pace(m.ctx)
}
