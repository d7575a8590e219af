package pooldir

import (
	"errors"
	"os"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// A pool whose disk is unmounted between two checks is not ready: its mounts are not known.
func TestMountPointsOfADiskThatGoes(t *testing.T) {
	base, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	d := newDir()
	d.Base = int(base.Fd())
	d.at.mount = 1 << 30 // which mountinfo does not have any more
	for what, err := range map[string]error{"mounts": second(d.MountPoints("v")), "no mounts": d.CheckNoMounts("v")} {
		if !errors.Is(err, fault.ErrNotReady) {
			t.Errorf("%s: %v, want that the pool is not ready", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
