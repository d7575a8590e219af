package mount_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

func TestOf(t *testing.T) {
	proc, err := mount.Of("/proc/self")
	if err != nil || proc.Type != "proc" || proc.Point != "/proc" {
		t.Errorf("/proc/self is reached through %+v, %v", proc, err)
	}
	if _, err := mount.Of("/no/such/path"); err == nil {
		t.Error("a path that is not there has a mount")
	}
}

func TestSameFilesystem(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want bool
	}{{"/proc/self", "/proc/sys", true}, {"/proc", "/", false}, {t.TempDir(), t.TempDir(), true}} {
		if got, err := mount.SameFilesystem(row.a, row.b); err != nil || got != row.want {
			t.Errorf("SameFilesystem(%s, %s) = %v, %v", row.a, row.b, got, err)
		}
	}
}
