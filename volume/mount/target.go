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

// The sentinels of errors about targets.
var (
	// ErrTarget: the path cannot be a target. It is not below the root, is not clean, has a link in
	// it, or is not a directory.
	ErrTarget = errors.New("not a usable target")
	// ErrParent: the directory that contains the target does not exist.
	ErrParent = errors.New("the directory of the target is missing")
	// ErrOther: something else is at the target, or mounted there.
	ErrOther = errors.New("target is taken")
)

// Target is a path at which a directory is mounted. It has an open descriptor of its parent
// directory, so that no change of the path leads to another place. The caller closes it.
type Target struct {
	Path   string // as given
	parent int    // O_PATH
	name   string
}

// OpenTarget opens the target below root without following links below root. It follows links in
// root itself, which an administrator chooses. Only the target's parent must exist.
//
// The error is ErrTarget or ErrParent. OpenTarget changes nothing.
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

// openBelow opens a directory without following links. It crosses mounts, because directories of
// the kubelet may be on disks of their own.
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

// Close closes the descriptor.
func (t *Target) Close() { unix.Close(t.parent) }

// Point returns the mount point of the target in mountinfo: its path without links.
func (t *Target) Point() (string, error) {
	dir, err := os.Readlink(procPath(t.parent))
	return filepath.Join(dir, t.name), err
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Open opens the target, or the topmost mount on it, as a path (O_PATH). The error is ENOENT if
// there is none. The caller closes it; the mount cannot be unmounted before.
func (t *Target) Open() (*os.File, error) {
	fd, err := openBelow(t.parent, t.name)
	if err == unix.ENOENT {
		return nil, fmt.Errorf("open %q: %w", t.Path, err)
	}
	if err != nil {
		return nil, unusable(t.Path, err)
	}
	return os.NewFile(uintptr(fd), t.Path), nil
}

// OpenCopy opens a copy of the topmost mount on the target, or of the target's directory, as a path
// (O_PATH). The copy is attached nowhere, so it does not keep the target from being unmounted; see
// open_tree(2). It ends when the caller closes it. The error is ENOENT if there is no target.
func (t *Target) OpenCopy() (*os.File, error) {
	f, err := t.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tree, err := openCopy(f)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), t.Path), nil
}

// openCopy returns a descriptor of a copy of the mount of dir, reduced to dir.
func openCopy(dir *os.File) (fd int, err error) {
	fd, err = unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return 0, fmt.Errorf("open_tree of %q: %w", dir.Name(), err)
	}
	return fd, nil
}

// At describes what is at a target.
type At struct {
	There   bool // the directory exists
	Mounted bool // and something is mounted on it:
	Info    Info
	dev     place
	devErr  error // why dev is unknown
}

type place struct {
	major, minor uint32
	inode        uint64
}

// Is reports whether the directory dir is mounted at the target. The error is that of the
// filesystem at the target or of dir.
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

// Inspect returns what is at the target. It works even if the filesystem there fails: XFS fails
// statx(2) after an error of its disk, and the target must still be unmounted. The error is
// ErrTarget if the target is a file or a link.
func (t *Target) Inspect() (At, error) {
	f, err := t.Open()
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
	if at.Info, at.Mounted, err = Find(id); err != nil {
		return At{}, err
	}
	if !at.Mounted {
		return At{}, fmt.Errorf("mount %d at %q is not in mountinfo", id, t.Path)
	}
	return at, nil
}
