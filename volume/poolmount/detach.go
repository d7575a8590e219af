package poolmount

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// ErrBusy means that the pool's filesystem is in use and cannot be unmounted yet.
var ErrBusy = errors.New("busy")

// Detach unmounts the filesystem that Attach mounted at the pool's directory for the owner, and
// removes the directory if it is empty. It does nothing if nothing is mounted there, or if that is
// mounted for another pool: there is nothing of this one then.
//
// The error is ErrBusy while the filesystem is in use, and mount.ErrOther if Attach did not mount
// it, or mounted it for the pool with another claim, or before owners were recorded.
func Detach(path string, o Owner) error {
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
	if r.Pool != "" && o.Pool != "" && r.Pool != o.Pool {
		return nil
	}
	err = p.target.Unbind(func(i mount.Info) bool {
		mounted, err := recordOf(i, o)
		return err == nil && mounted == r
	})
	at, failed := p.target.Inspect()
	switch {
	case failed != nil:
		return failed
	case !at.Mounted: // the directory may not be empty
		return file.Remove(int(p.above.Fd()), recordName)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: %s is in use: %s", ErrBusy, path, usersOf(at.Info))
	case errors.Is(err, mount.ErrOther) && r.Root != "" && r.Owner != o:
		return fmt.Errorf("%w; it is recorded for %s, and this is for %s, so it stays: unmount it on the node if "+
			"nothing uses it", err, r.Owner, o)
	case errors.Is(err, mount.ErrOther):
		return fmt.Errorf("%w; it was not mounted for the pool, so it stays: unmount it on the node", err)
	}
	return err
}

func (o Owner) String() string {
	if o == (Owner{}) {
		return "a holder of an earlier version"
	}
	return fmt.Sprintf("pool %s with claim %s", o.Pool, o.Claim)
}

func usersOf(i mount.Info) string {
	users := mount.Busy(i)
	if len(users) == 0 {
		return "by no process that is visible in this container; usually it is an agent that still offers the pool"
	}
	return strings.Join(users, ", ")
}
