package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What can be wrong with a target, for errors.Is.
var (
	// ErrTarget: the path can be no target: it is not below the root, not
	// clean, a link is on the way, or it is no directory.
	ErrTarget = errors.New("not a usable target")
	// ErrParent: the directory that the target shall lie in is not there.
	ErrParent = errors.New("the directory of the target is missing")
	// ErrOther: something else is mounted, or lies, at the target.
	ErrOther = errors.New("target is taken")
)

// Target is a path at which a directory is mounted. It is reached from an open
// descriptor of the directory it lies in, so that nothing that happens to the
// path in between leads anywhere else. The caller closes it.
type Target struct {
	Path   string // as given
	parent int    // O_PATH
	name   string
}

// OpenTarget finds the target below root without following a link on the way.
// root itself is an administrator's choice, and links in it are followed. The
// target need not be there; its directory must.
//
// The error is ErrTarget or ErrParent. Nothing is changed.
func OpenTarget(root, path string) (*Target, error) {
	rest, below := within(path, root)
	switch {
	case !filepath.IsAbs(path), filepath.Clean(path) != path, strings.ContainsRune(path, 0):
		return nil, fmt.Errorf("%w: %q is not an absolute, clean path", ErrTarget, path)
	case !below || rest == "":
		return nil, fmt.Errorf("%w: %q is not below %s", ErrTarget, path, root)
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrParent, root, err)
	}
	defer unix.Close(top)
	parent, err := openBelow(top, filepath.Dir(rest))
	switch err {
	case nil:
		return &Target{Path: path, parent: parent, name: filepath.Base(rest)}, nil
	case unix.ENOENT:
		return nil, fmt.Errorf("%w: %s", ErrParent, filepath.Dir(path))
	}
	return nil, unusable(path, err)
}

// openBelow opens a directory without following links. Mounts are crossed:
// kubelet's directories may have disks of their own.
func openBelow(dir int, name string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
}

func unusable(path string, err error) error {
	switch err {
	case unix.ELOOP, unix.ENOTDIR:
		return fmt.Errorf("%w: %q: a part of it is a symbolic link or a file", ErrTarget, path)
	case unix.ENAMETOOLONG:
		return fmt.Errorf("%w: a path of %d bytes is too long", ErrTarget, len(path))
	}
	return fmt.Errorf("open %q: %w", path, err)
}

// Close gives up the descriptor.
func (t *Target) Close() { unix.Close(t.parent) }

// Point is where a mount of the target stands in mountinfo: its path without
// links.
func (t *Target) Point() (string, error) {
	dir, err := os.Readlink(procPath(t.parent))
	return filepath.Join(dir, t.name), err
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// open opens what is at the target, whatever is mounted on it.
func (t *Target) open() (*os.File, error) {
	fd, err := openBelow(t.parent, t.name)
	if err == unix.ENOENT {
		return nil, fmt.Errorf("open %q: %w", t.Path, err)
	}
	if err != nil {
		return nil, unusable(t.Path, err)
	}
	return os.NewFile(uintptr(fd), t.Path), nil
}

// At is what is found at a target.
type At struct {
	There   bool // the directory is there
	Mounted bool // and something is mounted on it:
	Info    Info
	dev     place
	devErr  error // why dev is not known
}

// place tells one directory from every other.
type place struct {
	major, minor uint32
	inode        uint64
}

// Is reports whether the directory dir is mounted at the target. The error is
// that of the filesystem at the target, or of dir's.
func (a At) Is(dir *os.File) (bool, error) {
	if a.devErr != nil {
		return false, a.devErr
	}
	is, err := placeOf(dir)
	return err == nil && a.Mounted && a.dev == is, err
}

func placeOf(f *os.File) (place, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return place{}, fmt.Errorf("statx %q: %w", f.Name(), err)
	}
	return place{st.Dev_major, st.Dev_minor, st.Ino}, nil
}

// Look returns what is at the target. It asks the filesystem there nothing
// that it depends on: XFS answers no statx(2) after an error of its disk, and
// the target must come off all the same. The error is ErrTarget where a file
// or a link is at the target.
func (t *Target) Look() (At, error) {
	f, err := t.open()
	if errors.Is(err, unix.ENOENT) {
		return At{}, nil
	}
	if err != nil {
		return At{}, err
	}
	defer f.Close()
	at := At{There: true}
	at.dev, at.devErr = placeOf(f)
	above, err := mountID(t.parent)
	if err != nil {
		return At{}, err
	}
	id, err := mountID(int(f.Fd()))
	if err != nil {
		return At{}, err
	}
	if id == above { // the step down to the target crossed no mount
		return at, nil
	}
	all, err := Self()
	if err != nil {
		return At{}, err
	}
	if at.Info, at.Mounted = ByID(all, id); !at.Mounted {
		return At{}, fmt.Errorf("mount %d at %q is not in mountinfo", id, t.Path)
	}
	return at, nil
}

// Statfs asks the filesystem at the target; ENOENT where there is none.
func (t *Target) Statfs() (unix.Statfs_t, error) {
	var st unix.Statfs_t
	f, err := t.open()
	if err != nil {
		return st, err
	}
	defer f.Close()
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return st, fmt.Errorf("statfs %q: %w", t.Path, err)
	}
	return st, nil
}
