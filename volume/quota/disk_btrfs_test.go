//go:build disk

package quota

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A tenant's subvolume inside the volume counts for the volume's quota, and
// so does a snapshot of the volume inside itself, which is also removed with it.
func TestDiskBtrfsSubvolumesInside(t *testing.T) {
	dir, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, dir, "commit=1")
	ok(t, Enable(open(t, dir)))
	p := newPool(t, disk{method: MethodBtrfs}, dir)
	v, fd := p.volume("v", Limit{Bytes: 8 * mib})
	asTenant(t, func() error {
		return subvolume(fd, btrfsSubvolCreate, "nested")
	})
	var n int64
	var full error
	asTenant(t, func() error {
		// Not by its path: the directories above are root's alone.
		n, full = fill(fmt.Sprintf("/proc/self/fd/%d/nested/f", fd))
		return nil
	})
	if !errors.Is(full, unix.EDQUOT) || n > 8*mib {
		t.Errorf("wrote %d bytes in a subvolume inside, %v", n, full)
	}
	flush(t, fd)
	if u := p.usage(fd); u.Bytes < 6*mib {
		t.Errorf("what is in the subvolume inside is not counted: %+v", u)
	}
	if _, err := p.Set(fd, 0, Limit{Bytes: 12 * mib}); err != nil {
		t.Fatal(err)
	}
	ok(t, snapshot(fd, fd, "snapshot"))
	if n, err := fill(v + "/snapshot/f"); !errors.Is(err, unix.EDQUOT) || n > 4*mib {
		t.Errorf("wrote %d bytes in a snapshot inside, %v", n, err)
	}
	if removed, err := p.Remove(p.base, "v"); removed || err != nil {
		t.Errorf("with subvolumes inside: removed %v, %v", removed, err)
	}
	shut(fd)
	ok(t, os.RemoveAll(v))
	swept(t, p)
}

// After a restart the kernel gives a removed subvolume's ID to the next one. A
// group that was left over from the first does not hold the second by itself.
func TestDiskBtrfsIDUsedAgain(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	ok(t, Enable(open(t, dir)))
	p := newPool(t, disk{method: MethodBtrfs}, dir)
	ok(t, p.Make(p.base, "second"))
	fd := open(t, p.path+"/second")
	id, err := idOf(fd)
	ok(t, err)
	ok(t, createGroup(p.base, groupLevel|id))
	ok(t, limitGroup(p.base, groupLevel|id, 4*mib))
	if _, err := p.Set(fd, 0, Limit{Bytes: 4 * mib}); err != nil {
		t.Fatal(err)
	}
	if n, err := fill(p.path + "/second/f"); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

const btrfsSubvolCreate2 = 0x50009418 // BTRFS_IOC_SUBVOL_CREATE_V2

// The hole that squota.go names: a hostile tenant can make a subvolume that joins no qgroup.
// If a kernel closes it, this test fails, and the text can go.
func TestDiskBtrfsSubvolumeThatJoinsNothing(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	ok(t, Enable(open(t, dir)))
	p := newPool(t, disk{method: MethodBtrfs}, dir)
	v, fd := p.volume("v", Limit{Bytes: 4 * mib})
	asTenant(t, func() error {
		var none [9]uint64 // struct btrfs_qgroup_inherit without a qgroup
		a := volArgs2{Flags: 4, Size: uint64(unsafe.Sizeof(none)), Inherit: uint64(uintptr(unsafe.Pointer(&none)))}
		copy(a.Name[:], "free")
		return ioctl(fd, btrfsSubvolCreate2, unsafe.Pointer(&a))
	})
	if n, err := fill(v + "/free/f"); n < 8*mib || err != nil {
		t.Errorf("wrote %d bytes, %v: the kernel holds it now", n, err)
	}
}
