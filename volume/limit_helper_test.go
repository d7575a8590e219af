//go:build disk || vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/limit"
)

// A quotaDisk is a mounted filesystem that enforces limits.
type quotaDisk struct {
	root   string
	method limit.Method
	inodes bool
	full   unix.Errno // what a writer gets at the limit
	// lag is how long an inode may be counted that was removed: XFS does that
	// in the background.
	lag time.Duration
	// settle waits for what the kernel frees in the background.
	settle func()
}

func (d quotaDisk) pool(t *testing.T) *volume.Pool {
	t.Helper()
	p := opened(t, volume.Config{Path: d.newPath(t), EnableBtrfsQuota: true})
	if s := p.Limits(); s.Method != d.method || s.Reason != "" {
		t.Fatalf("limits %+v", s)
	}
	return p
}

var pathCount int

// newPath is of no pool yet, on the disk.
func (d quotaDisk) newPath(t *testing.T) string {
	t.Helper()
	pathCount++
	dir := filepath.Join(d.root, fmt.Sprintf("test-%d", pathCount))
	mkdir(t, dir)
	return filepath.Join(dir, "pool")
}

// pour writes to a file as a process without privileges would, which ext4 lets
// pass no limit, until an error or so many bytes.
func pour(t *testing.T, path string, most int64) (n int64, err error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ok(t, err)
	done := make(chan struct{})
	go func() { // the thread, and what it is, ends with the goroutine
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1000, 1000, 1000); errno != 0 {
			err = errno
			return
		}
		block := make([]byte, 64<<10)
		for n < most && err == nil {
			var wrote int
			wrote, err = f.Write(block)
			n += int64(wrote)
		}
	}()
	<-done
	return n, errors.Join(err, f.Close())
}

func dirFD(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	return fd
}

// inForce returns what the kernel holds a directory to.
func inForce(t *testing.T, path string) (limit.Usage, error) {
	t.Helper()
	fd := dirFD(t, path)
	defer unix.Close(fd)
	e, err := limit.Probe(fd)
	ok(t, err)
	return e.Usage(fd)
}

// swept fails the test where a limit is left that no directory has.
func (d quotaDisk) swept(t *testing.T) {
	t.Helper()
	fd := dirFD(t, d.root)
	defer unix.Close(fd)
	e, err := limit.Probe(fd)
	ok(t, err)
	if n, err := e.Sweep(fd); n != 0 || err != nil {
		t.Errorf("%d limits were left over, %v", n, err)
	}
}

// asRecorded checks that every volume has the limit of its record, and no two
// the same ID.
func asRecorded(t *testing.T, p *volume.Pool) {
	t.Helper()
	ids := map[uint64]string{}
	for _, name := range names(t, filepath.Join(p.Path(), records)) {
		r := onDisk(t, p, name)
		u, err := inForce(t, filepath.Join(p.Path(), name))
		if err != nil || u.Limit.Bytes != r.Bytes || r.LimitID == 0 {
			t.Errorf("%s: usage %+v, %v; recorded %d bytes, ID %d", name, u, err, r.Bytes, r.LimitID)
		}
		if other := ids[r.LimitID]; other != "" {
			t.Errorf("%s and %s have the ID %d", name, other, r.LimitID)
		}
		ids[r.LimitID] = name
	}
}

func limited(name string, bytes int64) volume.Spec {
	s := spec(name, bytes)
	s.Limit = volume.LimitRequired
	return s
}
