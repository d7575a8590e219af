package pooldir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// mounted returns the ID of the mount that the pool must lie on, 0 if the
// configuration names none. The error is ErrNotReady while it is not there.
func (o *Opener) mounted() (id int, err error) {
	if o.config.Mount == "" {
		return 0, nil
	}
	dir := filepath.Join("/", o.config.Mount)
	disk, err := mount.OfHost(dir)
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
