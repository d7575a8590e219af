package poolmount

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// ErrBusy means that the pool's filesystem is in use and cannot be unmounted yet.
var ErrBusy = errors.New("busy")

// Detach unmounts the filesystem that Attach mounted at the pool's directory, and removes the directory
// if it is empty. It does nothing if nothing is mounted there.
//
// The error is ErrBusy while the filesystem is in use, and mount.ErrOther if Attach did not mount it.
func Detach(path string) error {
	p, err := openPlace(path)
	if errors.Is(err, mount.ErrParent) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	r, err := p.read()
	if err != nil {
		return err
	}
	err = p.target.Unbind(func(i mount.Info) bool {
		mounted, err := recordOf(i)
		return err == nil && mounted == r
	})
	at, failed := p.target.Inspect()
	switch {
	case failed != nil:
		return failed
	case !at.Mounted: // the directory may not be empty
		return p.forget()
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: %s is in use: %s", ErrBusy, path, usersOf(at.Info))
	case errors.Is(err, mount.ErrOther):
		return fmt.Errorf("%w; it was not mounted for the pool, so it stays: unmount it on the node", err)
	}
	return err
}

func usersOf(i mount.Info) string {
	users := mount.Busy(i)
	if len(users) == 0 {
		return "by no process that is visible in this container; usually it is an agent that still offers the pool"
	}
	return strings.Join(users, ", ")
}
