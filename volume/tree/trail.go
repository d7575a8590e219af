package tree

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// keepOpen is how many directories a trail keeps open. The tenant can disturb a walk by
	// moving a directory only if more than these are above it.
	keepOpen = 16
	// maxDepth bounds the memory of a trail, at 48 bytes a directory.
	maxDepth = 1 << 18
	// moreEntries is how many entries a directory may have beyond its size in bytes, of which
	// each entry takes at least one. On btrfs a renamed entry appears again at the end, so
	// reading would not end while a tenant renames entries.
	moreEntries = 1 << 14
)

// errMoved: ".." led to another directory than the one above on the way down.
var errMoved = errors.New("directories were moved meanwhile, deep below; try again")

// An inode is a file's identity. On btrfs the device changes inside a tree.
type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// A trail is the chain of directories from the top of a walk to the current one. It keeps the last
// few open. It finds the others again through "..", and checks that their inode is the same.
type trail struct {
	steps []level
}

// A level is a directory of a trail.
type level struct {
	id   inode
	next int64 // where reading it continues
	left int64 // entries that may still follow
	fd   int   // -1 if it is not kept open
}

func (t *trail) here() *level { return &t.steps[len(t.steps)-1] }

// down makes the open directory fd the current one. The trail closes fd, also if down fails.
func (t *trail) down(fd int) error {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_SIZE, &st)
	if err == nil && len(t.steps) >= maxDepth {
		err = fmt.Errorf("deeper than %d directories", maxDepth)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	t.steps = append(t.steps, level{id: inodeOf(&st), left: int64(st.Size) + moreEntries, fd: fd})
	if above := len(t.steps) - 1 - keepOpen; above >= 0 {
		unix.Close(t.steps[above].fd)
		t.steps[above].fd = -1
	}
	return nil
}

// up makes the directory above the current one, and reports whether there is one.
func (t *trail) up() (more bool, err error) {
	below := t.here().fd
	t.steps = t.steps[:len(t.steps)-1]
	defer unix.Close(below)
	if len(t.steps) == 0 {
		return false, nil
	}
	if t.here().fd < 0 {
		t.here().fd, err = openAbove(below, t.here().id)
	}
	return err == nil, err
}

func openAbove(dir int, id inode) (int, error) {
	fd, err := openUp(dir)
	if err != nil {
		return -1, fmt.Errorf("open the directory above: %w", err)
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st)
	if err == nil && inodeOf(&st) != id {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (t *trail) close() {
	for i := len(t.steps) - 1; i >= 0 && t.steps[i].fd >= 0; i-- {
		unix.Close(t.steps[i].fd)
	}
	t.steps = nil
}

// walk visits everything below the current directory, a directory before its entries, and ends
// above it. visit returns a descriptor of a directory to walk, or -1. walk calls leave after the
// last entry of each directory, which is the current one then. If the tree changes meanwhile, an
// added entry may be missed, and a moved one may be visited twice or not at all.
func (t *trail) walk(visit func(dir int, name string) (int, error), leave func() error) error {
	buf := make([]byte, 4<<10)
	for {
		into, err := t.read(buf, visit)
		switch {
		case err != nil:
			return err
		case into >= 0:
			if err := t.down(into); err != nil {
				return err
			}
			continue
		}
		if err := leave(); err != nil {
			return err
		}
		if more, err := t.up(); !more {
			return err
		}
	}
}

// read continues with the entries of the current directory until visit returns a directory to walk.
// It returns -1 at the end.
func (t *trail) read(buf []byte, visit func(dir int, name string) (int, error)) (into int, err error) {
	here := t.here()
	if _, err := unix.Seek(here.fd, here.next, 0); err != nil {
		return -1, err
	}
	for {
		batch, err := nextEntries(here.fd, buf)
		if err != nil || len(batch) == 0 {
			return -1, err
		}
		for _, e := range batch {
			if here.next = e.next; here.left == 0 {
				return -1, ErrBusy
			}
			here.left--
			if into, err := visit(here.fd, e.name); into >= 0 || err != nil {
				return into, err
			}
		}
	}
}
