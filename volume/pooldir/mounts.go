package pooldir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// CheckPlain checks that name is a plain directory of the pool. The error is ErrNotFound if there
// is none, ErrConflict if it is a file or a link, and ErrInUse if it is a mount point.
func (d *Dir) CheckPlain(name string) error {
	fd, err := tree.OpenDir(d.Base, name)
	switch err {
	case nil:
		unix.Close(fd)
		return nil
	case unix.ENOENT:
		return fault.ErrNotFound
	case unix.EXDEV:
		return fmt.Errorf("%w: something is mounted on it", fault.ErrInUse)
	case unix.ELOOP, unix.ENOTDIR:
		return NotDir(nil)
	}
	return fault.Path("open", name, err)
}

// NotDir returns err, or else the error of a file or a link in place of a volume's directory.
func NotDir(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: a file or a link is in place of the volume's directory", fault.ErrConflict)
}

// CheckUnused checks that name is a plain directory, and that nothing is mounted on it, in it or
// from it. The errors are those of CheckPlain.
func (d *Dir) CheckUnused(name string) error {
	if err := d.CheckPlain(name); err != nil {
		return err
	}
	return d.CheckNoMounts(name)
}

// CheckNoMounts returns an ErrInUse if a mount uses the directory at path in the pool.
func (d *Dir) CheckNoMounts(path string) error {
	points, err := d.MountPoints(path)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%w: mounted at %s (mounts in all: %d)", fault.ErrInUse, points[0], len(points))
	}
	return nil
}

// MountPoints returns the points of the mounts that use the directory at path in the pool: on it,
// in it or from it.
func (d *Dir) MountPoints(path string) ([]string, error) {
	used, err := d.Used([]string{path})
	return used[path], err
}

// Used returns the points of MountPoints for each of the paths that has some.
func (d *Dir) Used(paths []string) (points map[string][]string, err error) {
	real, err := d.RealPath()
	if err != nil {
		return nil, err
	}
	all, err := mount.Self()
	if err != nil {
		return nil, err
	}
	points = map[string][]string{}
	for _, path := range paths {
		users, err := mount.Users(all, int(d.at.mount), real+"/"+path)
		if err != nil { // the disk was unmounted since the pool was checked
			return nil, fmt.Errorf("%w: %w", fault.ErrNotReady, err)
		}
		if len(users) > 0 {
			points[path] = users
		}
	}
	return points, nil
}

// mounted returns the ID of the mount that the pool must lie on, 0 if the
// configuration names none. The error is ErrNotReady while it is not there.
func (o *Opener) mounted() (id int, err error) {
	if o.config.Mount == "" {
		return 0, nil
	}
	dir := filepath.Join("/", o.config.Mount)
	var disk mount.Info // its ID is 0 if the configuration answers: any mount
	if o.config.Mounted != nil {
		err = o.config.Mounted(dir)
	} else {
		disk, err = mount.OfHost(dir)
	}
	if err == nil && o.config.Owned != nil {
		if err := o.config.Owned(dir); err != nil {
			return 0, fmt.Errorf("%w: %w", fault.ErrNotReady, err)
		}
	}
	switch {
	case err == nil:
		return disk.ID, nil
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s, where its disk must be mounted, is missing", dir)
	default:
		err = fmt.Errorf("its disk must be mounted at %s: %w", dir, err)
	}
	return 0, fmt.Errorf("%w: %w", fault.ErrNotReady, err)
}

// liesOn returns ErrNotReady if the pool's directory is not on the mount, which
// may have gone while the directory was opened. 0 is any mount.
func (d *Dir) liesOn(id int) error {
	if id == 0 {
		return nil
	}
	at, err := placeOf(d.Base, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	all, err := mount.Self()
	if err != nil {
		return err
	}
	if int(at.mount) != id && !mount.On(all, int(at.mount), id) {
		return fmt.Errorf("%w: its directory does not lie on the disk that must be mounted", fault.ErrNotReady)
	}
	return nil
}
