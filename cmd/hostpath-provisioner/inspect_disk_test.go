//go:build disk

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// inContainer is the variable by which this test starts itself, with the part to play and the pool.
const inContainer = "HPP_TEST_IN_CONTAINER"

// Mounts of a volume, and of a directory in it, are places where a reset of the node removes data.
func TestInspectPublished(t *testing.T) {
	clean(t)
	dir := filepath.Join(t.TempDir(), "pool")
	pool, err := volume.New(volume.Config{Path: dir, Holder: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	v, err := pool.Create(volume.Spec{Name: "pvc-a", Bytes: 1 << 20, PV: "pvc-a"})
	if err != nil {
		t.Fatal(err)
	}
	published := func(format string) (string, error) {
		var out bytes.Buffer
		err := run(context.Background(), []string{"inspect", "--published", "-o", format, dir}, &out)
		return out.String(), err
	}
	if out, err := published("table"); err != nil || out != "" {
		t.Errorf("nothing is mounted: %q, %v", out, err)
	}
	whole, inside := t.TempDir(), t.TempDir()
	bind(t, dir, t.TempDir()) // the whole pool, as in an agent's container
	bind(t, v.Path, whole)
	if err := os.Mkdir(v.Path+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	bind(t, v.Path+"/sub", inside)
	for _, format := range []string{"table", "json"} {
		out, err := published(format)
		if err == nil || !strings.Contains(err.Error(), "mounted at 2 places") {
			t.Errorf("%s: %v", format, err)
		}
		for _, want := range []string{dir, "pvc-a", whole, inside} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in %s", format, want, out)
			}
		}
	}
	if _, err := inspect.Published(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("no error for a pool that does not exist")
	}
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

// In the container of an agent, whose program cannot be written, an inspect waits for another one
// and then names it.
func TestInspectInAContainer(t *testing.T) {
	clean(t)
	if part, pool, ok := strings.Cut(os.Getenv(inContainer), " "); ok {
		playPart(t, part, pool)
		return
	}
	dir := filepath.Join(t.TempDir(), "pool")
	pool, err := volume.New(volume.Config{Path: dir, Holder: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	out, err := start("first", dir, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"alone: <nil>", "beside another: inspect: another inspect of this agent runs"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// start runs this test as another process.
func start(part, pool string, flags uintptr) (string, error) {
	c := exec.Command("/proc/self/exe", "-test.run=^TestInspectInAContainer$")
	c.Env = append(os.Environ(), inContainer+"="+part+" "+pool)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	out, err := c.CombinedOutput()
	return string(out), err
}

// playPart is the first process of the container, as the agent is, or one that a kubelet starts.
func playPart(t *testing.T, part, pool string) {
	if part == "exec" {
		var out bytes.Buffer
		fmt.Printf("%v\n", run(context.Background(), []string{"inspect", pool}, &out))
		return
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{self, self, "", unix.MS_BIND},
		{"", self, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
		{"proc", "/proc", "proc", 0},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mount %s: %v", m.to, err)
		}
	}
	first, err := os.Readlink("/proc/1/exe")
	if err != nil || os.Getpid() != 1 {
		t.Fatalf("process %d, the first is %s: %v", os.Getpid(), first, err)
	}
	out, err := start("exec", pool, 0)
	fmt.Printf("alone: %s (%v)\n", out, err)
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	out, err = start("exec", pool, 0)
	fmt.Printf("beside another: %s (%v)\n", out, err)
}
