package vm_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

// The tests of pools with limits, on filesystems with project quota, which not every kernel has. It
// starts first, because it takes longest.
func TestPoolLimits(t *testing.T) {
	t.Parallel()
	m := limits(t, "./volume")
	run(t, m, "-test.run=^TestVMLimits$")
}

// What a volume with a limit costs the disk.
func TestBytesOfAVolume(t *testing.T) {
	t.Parallel()
	run(t, limits(t, "./volume"), "-test.run=^TestVMBytesOfAVolume$")
}

// The tests of volume/quota, too.
func TestLimits(t *testing.T) {
	t.Parallel()
	m := limits(t, "./volume/quota")
	run(t, m, "-test.skip=PowerCut$")
}

// A machine whose power goes right after a volume was put into place, and the next one with the
// same disks.
func TestLimitsSurviveAPowerCut(t *testing.T) {
	t.Parallel()
	m := limits(t, "./volume/quota")
	ctx, cut := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cut()
	cutting := m
	cutting.Args = []string{"-test.run=^TestVMBeforePowerCut$"}
	cutting.Output = io.MultiWriter(linesOf(t), when("ready for the power cut", cut))
	if err := vm.Run(ctx, cutting); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the machine to be killed", err)
	}
	run(t, m, "-test.run=^TestVMAfterPowerCut$")
}

func run(t *testing.T, m vm.Machine, args ...string) {
	t.Helper()
	m.Args = append(args, "-test.v", "-test.timeout=590s")
	// An emulated machine on a busy one takes several times as long.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := vm.Run(ctx, m); err != nil {
		t.Fatal(err)
	}
}

// limits is a machine with the tests of a package and the disks for limits.
func limits(t *testing.T, pkg string) vm.Machine {
	t.Helper()
	m := machine(t, pkg)
	m.Disks = []string{
		disk(t, "mkfs.xfs"),
		disk(t, "mkfs.ext4", "-O", "project,quota", "-E", "quotatype=prjquota"),
		disk(t, "mkfs.ext4"),
	}
	m.Env = []string{"XFS=/dev/vda", "EXT4=/dev/vdb", "PLAIN=/dev/vdc"}
	m.Modules = []string{"xfs", "quota_v2"}
	m.Output = linesOf(t)
	return m
}

// machine is one with the tests of a package.
func machine(t *testing.T, pkg string) vm.Machine {
	t.Helper()
	program, err := programs.build(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return vm.Machine{Arch: arch, Program: program, Log: os.Stdout}
}

// disk makes an image with a filesystem. The least that mkfs.xfs accepts is 300 MiB.
func disk(t *testing.T, mkfs string, args ...string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, append(append(args, "-q"), image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	return image
}
