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

func TestOn(t *testing.T) {
	all := parse(t, node+"60 50 8:17 / /var/pool rw - xfs /dev/sdb1 rw\n61 60 8:33 / /var/pool/a rw - xfs /dev/sdc1 rw\n")
	for _, row := range []struct {
		id, below int
		want      bool
	}{{60, 50, true}, {61, 50, true}, {61, 27, true}, {50, 60, false}, {50, 50, false}, {60, 51, false}, {99, 27, false}} {
		if got := mount.On(all, row.id, row.below); got != row.want {
			t.Errorf("On(%d, %d) = %v", row.id, row.below, got)
		}
	}
}
