package quota_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

func TestClearFlagsDoesNothingWhereNothingIsSet(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = quota.GetAttr(int(f.Fd()))
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Log("this filesystem has no such flags; real disks are tested in volume/tree")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := quota.ClearFlags(int(f.Fd()), quota.Immutable|quota.AppendOnly); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
}

func TestGetAttrOfWhatHasNoFlags(t *testing.T) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := quota.GetAttr(int(f.Fd())); err == nil {
		t.Error("procfs has no such flags")
	}
}
