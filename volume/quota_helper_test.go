//go:build disk || vm || power

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A quotaDisk is a mounted filesystem that enforces quotas.
type quotaDisk struct {
	root   string
	method quota.Method
	inodes bool
	full   unix.Errno // the error of a write past the quota
	// lags: an inode that was removed may be counted until settle was called.
	lags bool
	// slow is a disk of an emulated machine: a test does there what it must.
	slow bool
	// settle waits for what the kernel frees in the background.
	settle func()
}

func (d quotaDisk) pool(t *testing.T) *volume.Pool {
	t.Helper()
	p := opened(t, volume.Config{Path: d.newPath(t), EnableBtrfsQuota: true})
	if s := p.Quotas(); s.Method != d.method || s.Reason != "" {
		t.Fatalf("limits %+v", s)
	}
	return p
}

var pathCount atomic.Int64

// newPath is of no pool yet, on the disk. The test gives the space back when it ends:
// the next one on the disk, in whatever order, needs it.
func (d quotaDisk) newPath(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(d.root, fmt.Sprintf("test-%d", pathCount.Add(1)))
	mkdir(t, dir)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the pool is closed
	return filepath.Join(dir, "pool")
}

// slack is how much less than what was written a pool may count as used: free space that
// the kernel gains meanwhile in the background, for its log and its metadata, is taken off.
const slack = 1 << 20

// pour writes to a file as a process without privileges would, which ext4 lets
// pass no quota, until an error or so many bytes.
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
	fd, err := openDir(path)
	ok(t, err)
	return fd
}

func openDir(path string) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// inForce returns what the kernel holds a directory to.
func inForce(path string) (quota.Usage, error) {
	fd, err := openDir(path)
	if err != nil {
		return quota.Usage{}, err
	}
	defer unix.Close(fd)
	e, err := quota.Probe(fd, quota.Hooks{})
	if err != nil {
		return quota.Usage{}, err
	}
	return e.Usage(fd, 0)
}

// swept fails the test if a quota is left that no directory has.
func (d quotaDisk) swept(t *testing.T) {
	t.Helper()
	for _, f := range d.unswept() {
		t.Errorf("%s: %s", f.kind, f.text)
	}
}

func (d quotaDisk) unswept() []breach {
	fd, err := openDir(d.root)
	if err != nil {
		return []breach{{leaked, err.Error()}}
	}
	defer unix.Close(fd)
	e, err := quota.Probe(fd, quota.Hooks{})
	n := 0
	if err == nil {
		n, err = e.Sweep(fd)
	}
	if n != 0 || err != nil {
		return []breach{{leaked, fmt.Sprintf("%d limits were left over, %v", n, err)}}
	}
	return nil
}

// asRecorded checks that every volume has the quota of its record, and no two
// the same ID.
func asRecorded(t *testing.T, p *volume.Pool) {
	t.Helper()
	for _, f := range unlike(p) {
		t.Errorf("%s: %s", f.kind, f.text)
	}
}

// unlike returns the quotas in force that are not those of the records. Adopted volumes may
// have none.
func unlike(p *volume.Pool) (faults []breach) {
	all, err := recorded(p)
	if err != nil {
		return []breach{{lost, err.Error()}}
	}
	ids := map[uint64]string{}
	for _, r := range all {
		u, err := inForce(filepath.Join(p.Path(), r.Name))
		if more := u.Limit.Bytes - r.Bytes; p.Quotas().Method == quota.MethodBtrfs && more >= given(all, r) && more <= given(all, r)+size {
			u.Limit.Bytes = r.Bytes // until the next purge also for a copy that is gone
		} else if p.Quotas().Method == quota.MethodXFS && more == 4*mib && (r.Source != nil || given(all, r) > 0) {
			u.Limit.Bytes = r.Bytes
		}
		switch {
		case errors.Is(err, unix.ENOENT), r.Adopted && r.QuotaID == 0 && errors.Is(err, quota.ErrUnlimited):
			continue // the account knows whether it should be there
		case err != nil, u.Limit.Bytes != r.Bytes, r.QuotaID == 0:
			faults = append(faults, breach{lost, fmt.Sprintf("%s: usage %+v, %v; recorded %d bytes, ID %d", r.Name, u, err, r.Bytes, r.QuotaID)})
		}
		if other := ids[r.QuotaID]; other != "" {
			faults = append(faults, breach{double, fmt.Sprintf("%s and %s have the ID %d", r.Name, other, r.QuotaID)})
		}
		ids[r.QuotaID] = r.Name
	}
	return faults
}

// given returns the bytes of the copies of a volume.
func given(all []record.Record, of record.Record) (sum int64) {
	for _, r := range all {
		if r.Source != nil && r.Source.Volume == of.Name {
			sum += r.Bytes
		}
	}
	return sum
}

func limited(name string, bytes int64) volume.Spec {
	s := spec(name, bytes)
	s.Quota = record.QuotaRequired
	return s
}
