package poolmount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// CheckOwner returns an error if the filesystem at the pool's directory was mounted for another pool.
// It returns nil if nothing is mounted there, if Attach did not mount it, or if an earlier version
// did, which recorded no owner.
func CheckOwner(path, pool string) error {
	at, err := mount.Of(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case at.Point != filepath.Clean(path):
		return nil
	}
	above, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	r, err := (&place{above: above}).read()
	if err != nil || r.Pool == "" || r.Pool == pool {
		return err
	}
	mounted, err := recordOf(at, r.Owner)
	if err != nil || mounted != r {
		return err
	}
	return fmt.Errorf("the filesystem at %s was mounted for %s, and this is pool %s", path, r.Owner, pool)
}
