//go:build disk

package volume_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/health"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// TestDiskFrozen: a filesystem that takes no write until it is thawed.
func TestDiskFrozen(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			dir := testdisk.Mount(t, kind)
			p := opened(t, volume.Config{Name: "frozen", Path: filepath.Join(dir, "pool"), Patience: patience})
			target := published(t, p, "v")[0]
			thaw := testdisk.Freeze(t, dir)

			_, err := p.Get("v") // nothing is written
			ok(t, err)
			refused(t, p, "create", patience+atOnce, everyCall(p)["create"])
			for name, call := range everyCall(p) {
				refused(t, p, name, atOnce, call)
			}
			ails(t, p, "does not answer", "v="+string(health.PoolNotReady))
			if err := unix.Unmount(target, 0); err != nil {
				t.Errorf("a pod cannot end: %v", err)
			}
			is(t, p.Close(), volume.ErrNotReady)
			next := configured(t, volume.Config{Name: "next", Path: p.Path(), Patience: patience})
			var held *fault.HeldError
			if err := next.Open(); err == nil || !errors.As(err, &held) && !strings.Contains(err.Error(), "does not answer") {
				t.Errorf("the next process: %v", err)
			}

			thaw()
			soon(t, "the next process", next.Ready)
			_, err = next.Get("u")
			ok(t, err) // the call that hung was let end
			consistent(t, next)
		})
	}
}
