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

// leave abandons the open pool, so that another one can be founded or opened at its path. It does
// so only if a disk was mounted over the pool before the pool held anything: an agent that started
// before the mount has founded the pool on the disk below. Otherwise leave does nothing, so a pool
// never moves back when the disk is unmounted.
//
// leave removes the identity through the open directory, to which the path does not lead any more.
// The caller is alone.
func (o *Opener) leave(d *Dir) {
	if d == nil || !d.covered(o.config.Path) || o.config.Used() || d.everUsed(o.config.Inner) {
		return
	}
	if slices.Contains(o.config.Expected().IDs, d.ID.ID) {
		return
	}
	o.config.Step("leave.identity")
	// If the identity cannot be removed, it remains that of an empty pool.
	_ = file.Remove(d.Private, identityName)
	o.config.Step("leave.sync")
	_ = file.Flush(d.Private)
	o.opened("", "")
}

// covered reports whether the path leads through a mount that is on the mount of the open pool. The
// pool's own directory may not exist yet on the new mount.
func (d *Dir) covered(path string) bool {
	now, err := placeOf(unix.AT_FDCWD, path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = placeOf(unix.AT_FDCWD, filepath.Dir(path), 0)
	}
	if err != nil || now.major == d.at.major && now.minor == d.at.minor && now.inode == d.at.inode {
		return false // or the same directory, through another mount
	}
	all, err := mount.Self()
	return err == nil && mount.On(all, int(now.mount), int(d.at.mount))
}

// everUsed reports whether the pool holds or ever held anything: a record, an entry in the trash,
// or an entry beside the private directory that is not a pool inside this one. In doubt it did, as with
// a directory of kept volumes, which only a deletion creates.
func (d *Dir) everUsed(inner []string) bool {
	names, err := file.List(d.Base, ".")
	own := func(name string) bool { return name == PrivateName || slices.Contains(inner, name) }
	if err != nil || len(slices.DeleteFunc(names, own)) > 0 {
		return true
	}
	return d.Kept() >= 0 || !untouched(d.Records) || !untouched(d.Trash) || !file.IsEmpty(d.Private, StagingName)
}

// untouched reports whether a directory never had an entry: its last change is as old as the
// directory itself. Not every filesystem records the latter.
func untouched(dir int) bool {
	const need = unix.STATX_BTIME | unix.STATX_MTIME
	var st unix.Statx_t
	err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, need, &st)
	return err == nil && st.Mask&need == need && st.Btime == st.Mtime
}
