package mount_test

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

func TestFlags(t *testing.T) {
	for _, row := range []struct {
		options  string // with spaces between
		readonly bool
		mounted  string // options in mountinfo
		differ   string // part of the answer; "" for none
	}{
		{"", false, "rw,relatime", ""},
		{"", false, "ro,relatime", "mounted readonly"},
		{"", true, "rw,relatime", "for writing"},
		{"", true, "ro,relatime", ""},
		{"ro", false, "ro", ""},
		{"rw", true, "ro", ""}, // readonly wins
		{"ro rw", false, "rw", ""},
		{"nosuid,nodev noexec", false, "rw,nosuid,nodev,noexec,noatime", ""},
		{"nosuid nodev", false, "rw,nosuid", "without nodev"},
		{"nosuid suid", false, "rw,nosuid", "with nosuid"},
		{"noatime", false, "rw,relatime", "without noatime"},
		{"noatime relatime", false, "rw,relatime", ""},
		{"relatime noatime", false, "rw,noatime,nodiratime", ""},
		{"strictatime", false, "rw", ""},
		{"noatime strictatime", false, "rw,noatime", "with noatime"},
		{"defaults", false, "rw", ""},
	} {
		f, err := mount.ParseFlags(strings.Fields(row.options), row.readonly)
		if err != nil {
			t.Errorf("%q: %v", row.options, err)
			continue
		}
		got := f.Differ(mount.Info{Options: row.mounted})
		if !strings.Contains(got, row.differ) || (row.differ == "") != (got == "") {
			t.Errorf("%q (readonly %v), mounted %s: %q, want %q", row.options, row.readonly, row.mounted, got, row.differ)
		}
	}
	for _, bad := range []string{"uid=0", "loop", "remount", "rbind", "", "nosuid,,nodev", "NOEXEC", "context=x"} {
		if _, err := mount.ParseFlags([]string{bad}, false); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
