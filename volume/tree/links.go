package tree

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// link makes name a hard link if the file was already copied under another of its names. It reports
// whether it did.
func (c *copier) link(name string, st *unix.Statx_t) (done bool, err error) {
	if st.Nlink < 2 || c.links < 0 {
		return false, nil
	}
	to, key := c.to.here().fd, linkKey(st)
	err = unix.Linkat(c.links, key, to, name, 0)
	if err == unix.EMLINK {
		// The kept name counts as a link: the last link replaces it.
		err = Rename(c.links, key, to, name)
	}
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil, err
}

// keepLink keeps a name for the copy of a file that has several links.
func (c *copier) keepLink(name string, st *unix.Statx_t) error {
	if st.Nlink < 2 {
		return nil
	}
	if c.links < 0 {
		if err := c.makeLinks(); err != nil {
			return err
		}
	}
	return unix.Linkat(c.to.here().fd, name, c.links, linkKey(st), 0)
}

// linkKey identifies a file. Another file that later gets the same inode number has another key.
func linkKey(st *unix.Statx_t) string {
	key := fmt.Sprintf("%x-%x-%x-%x-%x", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
	if appendOnly(st) {
		key += appendSuffix
	}
	return key
}

func (c *copier) makeLinks() error {
	c.linksName = ".links-" + rand.Text() // a tenant cannot guess it
	if err := unix.Mkdirat(c.base, c.linksName, 0o700); err != nil {
		return err
	}
	fd, err := OpenDir(c.base, c.linksName)
	if err != nil {
		return err
	}
	c.links = fd
	return uncount(fd)
}

// uncount takes an empty directory out of the project quota of the one above it, as the original has no
// such directory. It does nothing if there is none. Files of any project may have links in it.
func uncount(fd int) error {
	a, err := quota.GetAttr(fd)
	if err != nil || a.Project == 0 {
		return nil // not every filesystem has such attributes
	}
	a.Project, a.Flags = 0, a.Flags&^quota.ProjectInherit
	return quota.SetAttr(fd, a)
}

// appendSuffix ends the kept names of files that become append-only with their last link.
const appendSuffix = "-a"

func appendOnly(st *unix.Statx_t) bool { return st.Attributes&unix.STATX_ATTR_APPEND != 0 }

// dropLinks removes the kept names. An append-only file gets its flag once it has all its links: it
// can neither get nor lose another.
func (c *copier) dropLinks() error {
	if c.links < 0 {
		return nil
	}
	dir, err := reopen(c.links, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := names(dir, func(name string) bool {
		if !strings.HasSuffix(name, appendSuffix) {
			return true
		}
		var fd int
		if fd, err = Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK); err == nil {
			c.lose("a file with several links", flagInto(fd, flagAppend, flagAppend))
			unix.Close(fd)
		}
		return err == nil
	}); err != nil {
		return err
	}
	// Remove gives a file that has another link its flag back.
	return cmp.Or(err, Remove(c.ctx, c.base, c.linksName, c.o.Pace))
}
