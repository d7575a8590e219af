package tree

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// LeftOut is what a copy lacks, because it must not be copied or cannot be.
type LeftOut struct {
	Total int
	First []string // paths below the top, with the reason; at most maxLeftOut
}

// maxLeftOut bounds what is said of a tree full of it.
const maxLeftOut = 10

// String is a sentence for a message, empty where nothing was left out.
func (l LeftOut) String() string {
	if l.Total == 0 {
		return ""
	}
	return fmt.Sprintf("left out %d: %s", l.Total, strings.Join(l.First, "; "))
}

// Copy copies the directory name in from into the empty directory to, of the
// same filesystem or another: everything below it, and its own owner, mode,
// times and extended attributes. It returns what it left out: device nodes
// (whiteouts are none), and what is mounted in the tree. Sockets are of no use
// without who listens to them, and are passed over in silence.
//
// Files share their blocks with the original where the filesystem can do that
// (FICLONE), and keep their holes elsewhere. Links among the files of the tree
// are kept, symbolic links are copied and never followed. Inode flags and
// project IDs are those that to hands down. See copiedXattr for the attributes.
//
// The owner may change the tree meanwhile. Each file is copied as of some
// moment, or some moments where its blocks cannot be shared; different files
// are of different moments. What goes meanwhile is not in the copy. Nothing
// outside of the tree is ever read.
//
// pace is called for every entry, and every MiB that is written. Nobody else
// may work in to. Nothing is flushed. With an error, to holds a part of the
// copy, for the caller to remove. The error is ENOTEMPTY where to was not empty.
func Copy(ctx context.Context, from int, name string, to int, pace Pace) (LeftOut, error) {
	c := &copier{ctx: ctx, pace: pace, base: to, links: -1}
	defer c.close()
	err := c.open(from, name)
	if err == nil {
		err = c.from.walk(c.visit, c.leave)
	}
	return c.left, pathError("copy", name, err)
}

// A copier goes through two trees at once. Nobody else sees the copy, so that
// names lead nowhere else there.
type copier struct {
	ctx  context.Context
	pace Pace
	left LeftOut

	from, to trail
	top      string // path of the original, which messages leave out
	base     int    // the copy's directory, as the caller gave it

	// links is a directory in the copy, -1 until it is needed, that has one name
	// for every file with several links: the map of those, on disk, where it
	// takes no memory.
	links     int
	linksName string

	data       contents
	attributes attributes
}

func (c *copier) open(from int, name string) error {
	source, err := openPath(from, name)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	fd, err := reopen(source, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	if c.top, err = os.Readlink(procPath(fd)); err == nil {
		err = c.from.down(fd)
	} else {
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	target, err := reopen(c.base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	if err := c.to.down(target); err != nil {
		return err
	}
	found := false
	if err := names(target, func(string) bool { found = true; return false }); err == nil && found {
		return unix.ENOTEMPTY
	}
	return err
}

func (c *copier) close() {
	c.from.close()
	c.to.close()
	if c.links >= 0 {
		unix.Close(c.links)
	}
}

// visit copies one entry. A directory is made for us alone; it gets what it
// shall have when all is in it.
func (c *copier) visit(dir int, name string) (into int, err error) {
	if err := c.pace.wait(c.ctx); err != nil {
		return -1, err
	}
	source, err := openPath(dir, name)
	switch err {
	case nil:
	case unix.ENOENT:
		return -1, nil
	case unix.EXDEV:
		c.omit(name, "something is mounted there")
		return -1, nil
	default:
		return -1, c.failed(name, err)
	}
	defer unix.Close(source)
	var st unix.Statx_t
	if err := unix.Statx(source, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return -1, c.failed(name, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		into, err = c.directory(source, name)
	} else {
		into, err = -1, c.leaf(source, name, &st)
	}
	if err == unix.EEXIST {
		err = nil // seen before: it was moved, or made again, while the directory was read
	}
	return into, c.failed(name, err)
}

// directory makes a directory and opens the original.
func (c *copier) directory(source int, name string) (into int, err error) {
	if err := unix.Mkdirat(c.to.here().fd, name, 0o700); err != nil {
		return -1, err
	}
	target, err := OpenDir(c.to.here().fd, name)
	if err != nil {
		return -1, err
	}
	into, err = reopen(source, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		unix.Close(target)
		return -1, err
	}
	if err := c.to.down(target); err != nil {
		unix.Close(into)
		return -1, err
	}
	return into, nil
}

// leave finishes the directory at hand: its default ACL would have gone to what
// was made in it, and its times would not have stayed.
func (c *copier) leave() error {
	if len(c.to.steps) == 1 {
		if err := c.dropLinks(); err != nil {
			return err
		}
	}
	var st unix.Statx_t
	fd := c.from.here().fd
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	if err == nil {
		err = c.attribute(fd, c.to.here().fd, &st, ".")
	}
	if err == nil {
		_, err = c.to.up()
	}
	return c.failed(".", err)
}

// leaf copies what is no directory.
func (c *copier) leaf(source int, name string, st *unix.Statx_t) error {
	whiteout := st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev_major == 0 && st.Rdev_minor == 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return nil
	case unix.S_IFCHR, unix.S_IFBLK:
		if !whiteout {
			c.omit(name, "it is a device node")
			return nil
		}
	}
	if done, err := c.link(name, st); done || err != nil {
		return err
	}
	if err := c.create(source, name, st); err != nil {
		return err
	}
	return c.keepLink(name, st)
}

func (c *copier) create(source int, name string, st *unix.Statx_t) (err error) {
	to := c.to.here().fd
	switch kind := uint32(st.Mode & unix.S_IFMT); kind {
	case unix.S_IFREG:
		return c.file(source, name, st)
	case unix.S_IFLNK:
		var target string
		// Through its descriptor it is the very link just looked at.
		if target, err = readlink(source); err == nil {
			err = unix.Symlinkat(target, to, name)
		}
	default: // a pipe or a whiteout
		err = unix.Mknodat(to, name, kind, 0)
	}
	if err != nil {
		return err
	}
	target, err := openPath(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return c.attribute(source, target, st, name)
}

func (c *copier) file(source int, name string, st *unix.Statx_t) error {
	in, err := c.openFile(source)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	out, err := Open(c.to.here().fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	if err := c.data.copy(in, out, int64(st.Size), func() error { return c.pace.wait(c.ctx) }); err != nil {
		return err
	}
	return c.attribute(in, out, st, name)
}

func (c *copier) attribute(from, to int, st *unix.Statx_t, name string) error {
	lost, err := c.attributes.copy(from, to, st)
	for _, xattr := range lost {
		c.omit(name, "the filesystem does not take its attribute "+shown(xattr))
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", shown(c.path(name)), err)
	}
	return nil
}

// omit notes what is left out of the directory at hand.
func (c *copier) omit(name, why string) {
	if c.left.Total++; len(c.left.First) < maxLeftOut {
		c.left.First = append(c.left.First, shown(c.path(name))+": "+why)
	}
}

// path is where name in the directory at hand is, as far as a path can say it:
// a deep one has only a name.
func (c *copier) path(name string) string {
	dir, err := os.Readlink(procPath(c.from.here().fd))
	rest, below := strings.CutPrefix(dir, c.top)
	if err != nil || !below {
		return name
	}
	return strings.TrimPrefix(rest+"/"+name, "/")
}

func (c *copier) failed(name string, err error) error {
	switch err.(type) { //nolint:errorlint // what is wrapped already is not an Errno itself
	case nil:
		return nil
	case unix.Errno:
		return pathError("copy", c.path(name), err)
	}
	return err
}
