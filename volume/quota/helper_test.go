//go:build disk || vm

package quota

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened are the descriptors of open that shut has not closed.
var opened sync.Map

// open opens a directory until the test ends.
func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	opened.Store(fd, nil)
	t.Cleanup(func() { shut(fd) })
	return fd
}

// shut closes what open opened, once.
func shut(fd int) {
	if _, there := opened.LoadAndDelete(fd); there {
		unix.Close(fd)
	}
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	ok(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// pour appends to a file until an error or so many bytes, and returns how many
// it wrote.
func pour(f *os.File, most int64) (n int64, err error) {
	block := make([]byte, 64<<10)
	for n < most && err == nil {
		var wrote int
		wrote, err = f.Write(block)
		n += int64(wrote)
	}
	return n, err
}

// fill writes a new file until an error, at most 64 MiB.
func fill(path string) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return pour(f, 64*mib)
}

// flush writes everything back that is only in memory.
func flush(t *testing.T, fd int) {
	t.Helper()
	ok(t, unix.Syncfs(fd))
}

// await waits for what the kernel does in the background.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// noLimits checks that a filesystem has no quotas, for one of the reasons, and that a pool
// works all the same.
func noLimits(t *testing.T, dir string, reasons ...string) {
	t.Helper()
	fd := open(t, dir)
	e, err := Probe(fd, Hooks{})
	ok(t, err)
	s := e.Support()
	told := slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(s.Reason, reason) })
	if s.Method != MethodNone || s.Inodes || !told {
		t.Errorf("%+v; want one of %q", s, reasons)
	}
	ok(t, e.Make(fd, "v"))
	t.Cleanup(func() { os.Remove(dir + "/v") })
	v := open(t, dir+"/v")
	if _, err := e.Set(v, 0, Limit{Bytes: mib}); !errors.Is(err, ErrNone) {
		t.Errorf("set: %v", err)
	}
	if _, err := e.Usage(v, 0); !errors.Is(err, ErrNone) {
		t.Errorf("usage: %v", err)
	}
	removed, err := e.Remove(fd, "v")
	swept, err2 := e.Sweep(fd)
	if _, whole := e.(Snapshotter); removed != whole || err != nil || swept != 0 || err2 != nil {
		t.Errorf("remove %v, %v; sweep %d, %v", removed, err, swept, err2)
	}
}

// asTenant runs do on a thread with a user ID and without capabilities, as in
// a pod; the thread ends with it.
func asTenant(t *testing.T, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1000, 1000, 1000); errno != 0 {
			done <- errno
			return
		}
		done <- do()
	}()
	ok(t, <-done)
}
