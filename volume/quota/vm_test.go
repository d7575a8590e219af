//go:build vm

package quota

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These tests run in the virtual machine of e2e/vm, whose kernel has project
// quota. They find their disks in the environment: XFS, EXT4 (made with project
// quota) and PLAIN (an ext4 without).

func TestMain(m *testing.M) {
	if err := dropResource(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// dropResource takes CAP_SYS_RESOURCE from every thread: ext4 enforces
// no quota on a process that has it, and a pod has not.
func dropResource() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	data[0].Permitted &^= 1 << unix.CAP_SYS_RESOURCE
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}

// disks are the filesystems with project quota.
func disks() map[string]disk {
	return map[string]disk{
		"xfs":  {method: MethodXFS, full: unix.ENOSPC, statfs: true, mount: mounted("xfs", "XFS"), remount: remounted("xfs", "XFS")},
		"ext4": {method: MethodExt4, full: unix.EDQUOT, statfs: true, mount: mounted("ext4", "EXT4"), remount: remounted("ext4", "EXT4")},
	}
}

func mounted(kind, name string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		dir := t.TempDir()
		attach(t, kind, name, dir, "prjquota")
		return dir
	}
}

func remounted(kind, name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		ok(t, unix.Unmount(dir, 0))
		attach(t, kind, name, dir, "prjquota")
	}
}

// attach mounts the disk that the environment names, until the test ends.
func attach(t *testing.T, kind, name, dir, options string) {
	t.Helper()
	if err := unix.Mount(os.Getenv(name), dir, kind, 0, options); err != nil {
		t.Fatalf("mount %s=%q as %s with %q: %v", name, os.Getenv(name), kind, options, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func TestVM(t *testing.T) {
	for kind, d := range disks() {
		t.Run(kind, func(t *testing.T) { table(t, d) })
	}
}

func TestVMWithoutLimits(t *testing.T) {
	for _, row := range []struct{ kind, disk, options, why string }{
		{"xfs", "XFS", "", "XFS is mounted without the option prjquota"},
		{"xfs", "XFS", "pqnoenforce", "XFS is mounted with pqnoenforce"},
		{"ext4", "EXT4", "", "ext4 is mounted without the option prjquota"},
		{"ext4", "PLAIN", "", "ext4 lacks the features project and quota"},
		{"tmpfs", "", "", "only XFS, ext4 and btrfs"},
	} {
		t.Run(row.kind+row.disk+row.options, func(t *testing.T) {
			dir := t.TempDir()
			attach(t, row.kind, row.disk, dir, row.options)
			noLimits(t, dir, row.why)
		})
	}
}

// The filesystem comes back without quota while the pool is open: calls that
// set an ID still succeed, and no quota is allocated.
func TestVMQuotaTurnedOff(t *testing.T) {
	for kind, d := range disks() {
		t.Run(kind, func(t *testing.T) {
			root := d.mount(t)
			fd := open(t, root)
			e, err := Probe(fd, Hooks{})
			ok(t, err)
			shut(fd)
			ok(t, unix.Unmount(root, 0))
			attach(t, kind, strings.ToUpper(kind), root, "")
			fd = open(t, root)
			ok(t, e.Make(fd, "off"))
			if id, err := e.Set(open(t, root+"/off"), 0, Limit{Bytes: mib}); !errors.Is(err, ErrNone) {
				t.Errorf("ID %d, %v", id, err)
			}
		})
	}
}

// The hole that doc.go names: the owner of a file may take it out of the quota.
// If a kernel closes it, this test fails, and the text can go.
func TestVMOwnerMayLeave(t *testing.T) {
	for kind, d := range disks() {
		t.Run(kind, func(t *testing.T) {
			p := newPool(t, d, d.mount(t))
			v, fd := p.volume("v", Limit{Bytes: 4 * mib})
			f := create(t, v+"/f")
			if _, err := pour(f, 3*mib); err != nil {
				t.Fatal(err)
			}
			ok(t, f.Chown(1000, 1000))
			asTenant(t, func() error {
				a, err := GetAttr(int(f.Fd()))
				a.Project = 0
				return errors.Join(err, SetAttr(int(f.Fd()), a))
			})
			if u := p.usage(fd); u.Bytes > mib {
				t.Errorf("usage %+v: the kernel holds it now", u)
			}
		})
	}
}

// ready is the line that TestVMBeforePowerCut writes when the power may go.
const ready = "ready for the power cut"

// A volume is made as a pool makes one, and then the power goes.
func TestVMBeforePowerCut(t *testing.T) {
	for _, d := range disks() {
		p := newPool(t, d, d.mount(t))
		_, fd := p.volume("v", Limit{Bytes: 4 * mib, Inodes: 10})
		for _, fd := range []int{fd, p.base, p.stage} {
			ok(t, unix.Fsync(fd))
		}
	}
	fmt.Println(ready)
	time.Sleep(time.Minute)
}

// The disks of TestVMBeforePowerCut in the next machine: a volume in
// place has its quota.
func TestVMAfterPowerCut(t *testing.T) {
	for kind, d := range disks() {
		t.Run(kind, func(t *testing.T) {
			root := d.mount(t)
			dir := root + "/TestVMBeforePowerCut/v"
			fd := open(t, dir)
			e, err := Probe(fd, Hooks{})
			ok(t, err)
			u, err := e.Usage(fd, 0)
			if want := (Limit{Bytes: 4 * mib, Inodes: 10}); err != nil || u.Limit != want {
				t.Errorf("usage %+v, %v", u, err)
			}
			if n, err := fill(dir + "/f"); !errors.Is(err, d.full) || n > 4*mib {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		})
	}
}
