package poolholder

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/poolmount"
)

// Unmount unmounts the pool's filesystem. It retries until the deadline, but not if another
// filesystem is mounted there.
func Unmount(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	logged := ""
	for {
		err := poolmount.Detach(o.Path, o.Owner)
		if err == nil || errors.Is(err, mount.ErrOther) {
			return err
		}
		if logged != err.Error() {
			logged = err.Error()
			klog.InfoS("Cannot unmount the pool; trying again", "path", o.Path, "err", err)
		}
		if !sleep.For(ctx, o.Every) {
			return fmt.Errorf("not unmounted within %s: %w", o.Deadline, err)
		}
	}
}
