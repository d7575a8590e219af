package volume

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// plain returns nil where name is a directory of the pool: ErrNotFound where
// nothing is, ErrConflict where a file or a link is, ErrInUse where it is a
// mount point.
func (d *dir) plain(name string) error {
	fd, err := tree.OpenDir(d.base, name)
	switch err {
	case nil:
		unix.Close(fd)
		return nil
	case unix.ENOENT:
		return ErrNotFound
	case unix.EXDEV:
		return fmt.Errorf("%w: something is mounted on it", ErrInUse)
	case unix.ELOOP, unix.ENOTDIR:
		return notDir(nil)
	}
	return fault.Path("open", name, err)
}

func notDir(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: a file or a link stands where the volume's directory was", ErrConflict)
}

// unused returns nil where name is a plain directory, and nothing is mounted
// on it, in it or from it; see plain for the errors, and ErrInUse.
func (d *dir) unused(name string) error {
	if err := d.plain(name); err != nil {
		return err
	}
	return d.noMounts(name)
}

// noMounts returns ErrInUse where a mount uses what is at path in the pool.
func (d *dir) noMounts(path string) error {
	points, err := d.users(path)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%w: mounted at %s (mounts in all: %d)", ErrInUse, points[0], len(points))
	}
	return nil
}

// users returns the points of the mounts that use the directory at path in the
// pool: on it, in it or from it.
func (d *dir) users(path string) ([]string, error) {
	real, err := d.realPath()
	if err != nil {
		return nil, err
	}
	all, err := mount.Self()
	if err != nil {
		return nil, err
	}
	return mount.Users(all, int(d.at.mount), real+"/"+path)
}
