//go:build vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// TestVMReadHangs runs in the virtual machine of e2e/vm, whose kernel has device-mapper: a disk
// that answers no read, to a pool that is open, and to one that is opened. It finds the disk in the
// environment, PLAIN.
func TestVMReadHangs(t *testing.T) {
	disk := mapped(t, os.Getenv("PLAIN"))
	root := t.TempDir()
	mount := func() { // nothing of it was read
		t.Helper()
		ok(t, unix.Mount(disk.path, root, "ext4", 0, ""))
	}
	unmount := func() {
		t.Helper()
		soon(t, "unmount", func() error { return unix.Unmount(root, 0) })
	}
	mount()
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
	t.Cleanup(func() { disk.resume(t) })
	c := volume.Config{Name: "hangs", Path: filepath.Join(root, "pool"), Holder: "test", Patience: 2 * time.Second}
	p, other := opened(t, c), newPool(t)
	_, err := p.Create(spec("v", mib))
	ok(t, err)
	ok(t, p.Close())
	mkdir(t, filepath.Join(c.Path, "u", "below"))
	unmount()
	mount()
	p = opened(t, c)

	disk.suspend(t)
	refused(t, p, "what was not read yet", c.Patience+time.Second, everyCall(p)["adoptable"])
	for name, call := range everyCall(p) {
		refused(t, p, name, time.Second, call)
	}
	is(t, p.Close(), volume.ErrNotReady)
	begin := time.Now()
	_, err = other.Create(spec("served", mib))
	ok(t, err)
	if took := time.Since(begin); took > c.Patience {
		t.Errorf("the other pool took %s", took)
	}
	disk.resume(t)
	unmount()
	mount()

	disk.suspend(t)
	next := configured(t, c)
	refused(t, next, "open", c.Patience+time.Second, next.Open)
	is(t, pooldir.Check(c.Path), volume.ErrNotReady)
	_, err = inspect.Read(c.Path)
	is(t, err, volume.ErrNotReady)
	disk.resume(t)
	soon(t, "open by itself", func() error {
		if next.ID() != p.ID() {
			return errors.New("it is not")
		}
		return nil
	})
	ok(t, next.Ready())
}

// mapping is a disk of device-mapper that shows another one, until it is suspended.
type mapping struct {
	control int
	path    string
}

// The ioctls and flags of linux/dm-ioctl.h, and what struct dm_ioctl and struct dm_target_spec are
// as bytes.
const (
	dmCreate, dmSuspend, dmLoad             = 3, 6, 9
	dmSuspendFlag, dmSkipLockFS, dmNoFlush  = 1 << 1, 1 << 10, 1 << 11
	dmHeader, dmSpec, dmBuffer, dmName      = 312, 40, 1024, "hang"
	dmFlagsAt, dmCountAt, dmNameAt, dmDevAt = 28, 20, 48, 40
)

func mapped(t *testing.T, disk string) *mapping {
	t.Helper()
	control, err := unix.Open("/dev/mapper/control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	ok(t, err)
	t.Cleanup(func() { unix.Close(control) })
	m := &mapping{control: control}
	var size uint64
	fd, err := unix.Open(disk, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	ok(t, err)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size)))
	unix.Close(fd)
	if errno != 0 {
		t.Fatal(errno)
	}
	made := m.ioctl(t, dmCreate, 0, nil)
	m.path = fmt.Sprintf("/dev/dm-%d", unix.Minor(*(*uint64)(unsafe.Pointer(&made[dmDevAt]))))

	target := make([]byte, dmSpec)
	*(*uint64)(unsafe.Pointer(&target[8])) = size / 512
	copy(target[24:], "linear")
	m.ioctl(t, dmLoad, 0, append(target, disk+" 0\x00"...))
	m.resume(t)
	return m
}

// suspend lets reads and writes of the disk wait.
func (m *mapping) suspend(t *testing.T) {
	t.Helper()
	m.ioctl(t, dmSuspend, dmSuspendFlag|dmSkipLockFS|dmNoFlush, nil)
}

// resume lets all go on.
func (m *mapping) resume(t *testing.T) {
	t.Helper()
	m.ioctl(t, dmSuspend, 0, nil)
}

func (m *mapping) ioctl(t *testing.T, nr uintptr, flags uint32, data []byte) []byte {
	t.Helper()
	b := make([]byte, dmBuffer)
	word := func(at int, v uint32) { *(*uint32)(unsafe.Pointer(&b[at])) = v }
	word(0, 4) // the version of the interface
	word(12, dmBuffer)
	word(16, dmHeader)
	if len(data) > 0 {
		word(dmCountAt, 1)
	}
	word(dmFlagsAt, flags)
	copy(b[dmNameAt:], dmName)
	copy(b[dmHeader:], data)
	request := 3<<30 | dmHeader<<16 | 0xfd<<8 | nr
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m.control), request, uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
		t.Fatalf("device-mapper, ioctl %d: %v", nr, errno)
	}
	return b
}
