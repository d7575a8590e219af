package pooldir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// leave gives up the pool that is open, so that another one may be founded or
// opened at its path. It does so only where a disk was mounted over the pool
// before anything was kept in it: the pool was founded on the disk below, by an
// agent that started before the mount. It does nothing otherwise, so a pool
// never moves back when the disk is unmounted.
//
// The identity that is given up is removed through the open directory, which
// the path does not reach any more. The caller is alone.
func (o *Opener) leave(d *Dir) {
	if d == nil || !d.covered(o.config.Path) || o.config.Used() || d.everUsed(o.config.Inner) {
		return
	}
	if slices.Contains(o.config.Expected().IDs, d.ID.ID) {
		return
	}
	o.config.Step("leave.identity")
	// An identity that could not be removed is one of an empty pool, as before.
	_ = file.Remove(d.Private, identityName)
	o.config.Step("leave.sync")
	_ = file.Flush(d.Private)
	o.opened("", "")
}

// covered reports whether the path is reached through a mount that lies on the
// one through which the pool was opened. It may end below the new mount, where
// the pool's own directory is not made yet.
func (d *Dir) covered(path string) bool {
	now, err := placeOf(unix.AT_FDCWD, path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = placeOf(unix.AT_FDCWD, filepath.Dir(path), 0)
	}
	if err != nil || now.major == d.at.major && now.minor == d.at.minor && now.inode == d.at.inode {
		return false // or the very same directory, by another mount
	}
	all, err := mount.Self()
	return err == nil && mount.On(all, int(now.mount), int(d.at.mount))
}

// everUsed reports whether the pool holds or ever held anything: a record, an
// entry in the trash, or a name beside the private directory that is not of a
// pool inside this one. What cannot be told counts as used.
func (d *Dir) everUsed(inner []string) bool {
	names, err := file.List(d.Base, ".")
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return n != PrivateName && !slices.Contains(inner, n) }) {
		return true
	}
	return !untouched(d.Records) || !untouched(d.Trash) || !file.IsEmpty(d.Private, StagingName)
}

// untouched reports whether no name was ever made in a directory: its content
// is as old as the directory itself. Not every filesystem knows the latter.
func untouched(dir int) bool {
	const need = unix.STATX_BTIME | unix.STATX_MTIME
	var st unix.Statx_t
	err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, need, &st)
	return err == nil && st.Mask&need == need && st.Btime == st.Mtime
}
