package machine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The udev rule of docs/raw-disks.md gives away whole disks: after a boot its directory has a link
// to the disk, and none to the disk's partition, which has the same serial number.
func TestDisksRule(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "raw-disks.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^SUBSYSTEM=="block".*by-local-pv.*$`).Find(page)
	file := regexp.MustCompile(`/etc/udev/rules.d/[a-z0-9-]+.rules`).Find(page)
	if rule == nil || file == nil {
		t.Fatalf("the page has the rule %q for the file %q", rule, file)
	}
	const disk = "/dev/disk/by-id/virtio-MY-DISKS-raw"
	// A DOS partition table with a partition from the first MiB on.
	on(t, "cat >"+string(file)+" <<'EOF'\n"+string(rule)+"\nEOF\n"+
		`printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\0\001\0' | dd of=`+disk+` bs=1 seek=446 conv=notrunc,fsync status=none
printf '\125\252' | dd of=`+disk+` bs=1 seek=510 conv=notrunc,fsync status=none`)
	if err := guest.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "readlink -f "+disk+"-part1 && udevadm info -q property --property=ID_SERIAL --value "+disk+"-part1", "/dev/vde1\nMY-DISKS-raw")
	want(t, `cd /dev/disk/by-local-pv && for link in *; do echo "$link $(readlink -f "$link")"; done | grep raw`, "MY-DISKS-raw /dev/vde")
	on(t, "rm "+string(file)+" && wipefs -q -a "+disk)
	if err := agentReady(); err != nil {
		t.Fatal(err)
	}
}
