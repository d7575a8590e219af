package tree

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// keepOpen is how many directories a trail keeps open. Only below that many
	// does it matter whether somebody moves a directory meanwhile.
	keepOpen = 16
	// maxDepth bounds the memory of a trail, at 48 bytes a directory.
	maxDepth = 1 << 18
	// moreEntries is how many entries a directory may have beyond its size in
	// bytes, of which each entry takes one at least. On btrfs what is renamed comes
	// up again at the end, so that reading would not end while somebody renames.
	moreEntries = 1 << 14
)

// errMoved: going up led to another directory than the one that was left.
var errMoved = errors.New("directories were moved meanwhile, deep below; try again")

// An inode is a file's identity. On btrfs the device changes inside a tree.
type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// A trail is the way from a directory down to the one at hand. It keeps the
// last few open. Those above are found again through "..", and it is looked
// whether that is the directory that was left.
type trail struct {
	steps []level
}

// A level is a directory of a trail.
type level struct {
	id   inode
	next int64 // where reading it goes on
	left int64 // entries that may still come
	fd   int   // -1 where it is not kept open
}

// here is the directory at hand.
func (t *trail) here() *level { return &t.steps[len(t.steps)-1] }

// down goes into the directory that fd has open. The trail closes it, also
// where it fails.
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

// up leaves the directory at hand for the one above, and reports whether there
// is one.
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

// close gives up what is open.
func (t *trail) close() {
	for i := len(t.steps) - 1; i >= 0 && t.steps[i].fd >= 0; i-- {
		unix.Close(t.steps[i].fd)
	}
	t.steps = nil
}

// walk visits everything below the directory at hand, entries before what is in
// them, and ends above it. visit returns a directory that it opened to be
// walked through, or -1. leave is called with the trail at a directory all of
// which was visited. The tree may change meanwhile: what is added may be
// visited, and what is moved may be twice or not at all.
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

// read visits on in the directory at hand, until there is one to go into, or
// the end: then it returns -1.
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
