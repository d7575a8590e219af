package tree

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A copier walks two trees at once. Only the copier can reach the copy, so names are safe there.
type copier struct {
	ctx  context.Context //nolint:containedctx // of one call
	o    CopyOptions
	left LeftOut

	entries int64 // visited below the top
	most    int64 // that the listing before had
	files   int64 // with data, in the listing before
	written int64 // bytes that were not shared

	from, to trail
	top      string // path of the original, which messages omit
	base     int    // the copy's directory, as the caller gave it

	// links is a directory in the copy, -1 until it is needed, with one name for every file that
	// has several links. It is a map on disk, which takes no memory.
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
	return dropACLs(target)
}

func (c *copier) close() {
	c.from.close()
	c.to.close()
	if c.links >= 0 {
		unix.Close(c.links)
	}
}

// visit copies one entry. A directory gets a private mode; leave sets its attributes at its end.
func (c *copier) visit(dir int, name string) (into int, err error) {
	if err := c.o.Pace.wait(c.ctx); err != nil {
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
	if c.entries++; c.entries > c.most {
		return -1, ErrBusy // the copy is of no use, and a process could make entries without end
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		into, err = c.directory(source, name)
	} else {
		into, err = -1, c.leaf(source, name, &st)
	}
	if err == unix.EEXIST {
		err = nil // visited before: it was moved or created again while the directory was read
	}
	return into, c.failed(name, err)
}

// directory creates a directory and opens the original.
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

// leave sets the attributes of the current directory. Earlier, new entries would have inherited its
// default ACL and changed its times.
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
		c.flagDir(fd)
	}
	if err == nil {
		_, err = c.to.up()
	}
	return c.failed(".", err)
}

// leaf copies an entry that is not a directory.
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
		// The descriptor is of the link that visit checked.
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
	flags := flagsOf(in)
	c.lose(name, flagInto(out, flags, flagNoCow)) // a file with data cannot get it
	if err := c.contents(in, out, st); err != nil {
		return err
	}
	if err := c.attribute(in, out, st, name); err != nil {
		return err
	}
	c.flag(out, name, flags, st)
	return nil
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

// omit adds an entry of the current directory to the list of what is left out.
func (c *copier) omit(name, why string) { c.left.Add(c.path(name), why) }

// path returns the path of name in the current directory below the top, or only name if the
// directory is too deep for a path.
func (c *copier) path(name string) string {
	dir, err := os.Readlink(procPath(c.from.here().fd))
	rest, below := strings.CutPrefix(dir, c.top)
	if err != nil || !below {
		return name
	}
	return strings.TrimPrefix(rest+"/"+name, "/")
}

func (c *copier) failed(name string, err error) error {
	switch err.(type) { //nolint:errorlint // a wrapped error is not an Errno
	case nil:
		return nil
	case unix.Errno:
		return pathError("copy", c.path(name), err)
	}
	return err
}
