//go:build disk || vm

package limit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk is a filesystem with limits, and what differs from one to the next.
type disk struct {
	method  Method
	full    unix.Errno // of a write past the limit
	statfs  bool       // shows the limit
	mount   func(t *testing.T) string
	remount func(t *testing.T, dir string) // unmounts and mounts it again
}

const mib = 1 << 20

// table runs every row on one filesystem.
func table(t *testing.T, d disk) {
	t.Helper()
	rows := []struct {
		name string
		run  func(t *testing.T, d disk, p pool)
	}{
		{"WritePastTheLimit", testWritePastTheLimit},
		{"RoundedUp", testRoundedUp},
		{"Raise", testRaise},
		{"Lower", testLower},
		{"DeletedSpaceIsFree", testDeletedSpaceIsFree},
		{"Inodes", testInodes},
		{"SetAgain", testSetAgain},
		{"Foreign", testForeign},
		{"RenameKeepsTheLimit", testRenameKeepsTheLimit},
		{"OutsideStaysOutside", testOutsideStaysOutside},
		{"Concurrent", testConcurrent},
		{"Sweep", testSweep},
		{"SurvivesRemount", testSurvivesRemount},
	}
	path := d.mount(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.run(t, d, newPool(t, d, path)) })
	}
}

// A pool is a directory with those that volumes go through.
type pool struct {
	Enforcer
	t                 *testing.T
	root, path        string // where the disk is mounted, and the pool
	base, stage, bins int    // the pool, its staging and its trash
}

func newPool(t *testing.T, d disk, path string) pool {
	t.Helper()
	p := pool{t: t, root: path, path: filepath.Join(path, filepath.Base(t.Name()))}
	for _, name := range []string{"", "staging", "trash"} {
		ok(t, os.MkdirAll(filepath.Join(p.path, name), 0o777))
	}
	p.base, p.stage, p.bins = open(t, p.path), open(t, p.path+"/staging"), open(t, p.path+"/trash")
	e, err := Probe(p.base)
	ok(t, err)
	if s := e.Support(); s.Method != d.method || s.Reason != "" {
		t.Fatalf("support %+v", s)
	}
	p.Enforcer = e
	return p
}

// volume makes a volume with a limit and returns its directory.
func (p pool) volume(name string, l Limit) (dir string, fd int) {
	p.t.Helper()
	ok(p.t, p.Make(p.stage, name))
	fd = open(p.t, p.path+"/staging/"+name)
	if _, err := p.Set(fd, l); err != nil {
		p.t.Fatal(err)
	}
	ok(p.t, unix.Fchmod(fd, 0o777))
	ok(p.t, unix.Renameat2(p.stage, name, p.base, name, unix.RENAME_NOREPLACE))
	return filepath.Join(p.path, name), fd
}

func (p pool) usage(fd int) Usage {
	p.t.Helper()
	u, err := p.Usage(fd)
	ok(p.t, err)
	return u
}

func testWritePastTheLimit(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 10 * mib})
	n, err := fill(dir + "/f")
	if !errors.Is(err, d.full) {
		t.Errorf("wrote %d bytes, %v; want %v", n, err, d.full)
	}
	if n < 8*mib || n > 10*mib {
		t.Errorf("wrote %d bytes of 10 MiB", n)
	}
	// What is written back late is counted by then.
	flush(t, fd)
	if u := p.usage(fd); u.Bytes < 8*mib || u.Bytes > 10*mib || u.Limit.Bytes != 10*mib || p.Support().Inodes && u.Inodes != 2 {
		t.Errorf("usage %+v", u)
	}
	var st unix.Statfs_t
	ok(t, unix.Statfs(dir, &st))
	size, free := st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize)
	if shown := size == 10*mib && free < mib; shown != d.statfs {
		t.Errorf("statfs shows %d bytes, %d free; the limit: %v", size, free, d.statfs)
	}
	neighbour, _ := p.volume("neighbour", Limit{Bytes: 10 * mib})
	ok(t, os.WriteFile(neighbour+"/f", make([]byte, mib), 0o666))
}

func testRoundedUp(t *testing.T, _ disk, p pool) {
	_, fd := p.volume("v", Limit{Bytes: 10*mib + 1})
	if u := p.usage(fd); u.Limit.Bytes != 10*mib+4096 {
		t.Errorf("limit %d", u.Limit.Bytes)
	}
	for _, bytes := range []int64{0, -1, 1<<60 + 1} {
		if _, err := p.Set(fd, Limit{Bytes: bytes}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// A writer that ran into the limit goes on, with the same open file, while
// another one is writing.
func testRaise(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 4 * mib})
	f := create(t, dir+"/f")
	before, err := pour(f, 64*mib)
	if !errors.Is(err, d.full) {
		t.Fatalf("wrote %d bytes, %v", before, err)
	}
	done := make(chan int64)
	go func() { // keeps writing, through refusals
		var n int64
		for end := time.Now().Add(time.Minute); n < 2*mib && time.Now().Before(end); {
			more, _ := pour(f, 64<<10)
			n += more
		}
		done <- n
	}()
	time.Sleep(20 * time.Millisecond)
	if _, err := p.Set(fd, Limit{Bytes: 12 * mib}); err != nil {
		t.Fatal(err)
	}
	if n := <-done; n < 2*mib {
		t.Errorf("after the limit was raised the writer wrote %d bytes", n)
	}
	after, err := pour(f, 64*mib)
	if total := before + after + 2*mib; !errors.Is(err, d.full) || total < 10*mib || total > 12*mib+64<<10 {
		t.Errorf("wrote %d and %d bytes, %v", before, after, err)
	}
}

func testLower(t *testing.T, _ disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 10 * mib})
	ok(t, os.WriteFile(dir+"/f", make([]byte, 6*mib), 0o666))
	flush(t, fd)
	if _, err := p.Set(fd, Limit{Bytes: 4 * mib}); !errors.Is(err, ErrUsed) {
		t.Errorf("lowered below what is in use: %v", err)
	}
	if u := p.usage(fd); u.Limit.Bytes != 10*mib {
		t.Errorf("usage %+v", u)
	}
	if _, err := p.Set(fd, Limit{Bytes: 8 * mib}); err != nil {
		t.Error(err)
	}
	if n, err := fill(dir + "/g"); err == nil || n > 2*mib {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

func testDeletedSpaceIsFree(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 8 * mib})
	for range 3 {
		if n, err := fill(dir + "/f"); !errors.Is(err, d.full) || n < 6*mib {
			t.Fatalf("wrote %d bytes, %v", n, err)
		}
		ok(t, os.Remove(dir+"/f"))
		await(t, "space to be freed", func() bool {
			flush(t, fd)
			return p.usage(fd).Bytes < mib
		})
	}
}

func testInodes(t *testing.T, d disk, p pool) {
	if !p.Support().Inodes {
		_, fd := p.volume("v", Limit{Bytes: 10 * mib})
		if _, err := p.Set(fd, Limit{Bytes: 10 * mib, Inodes: 10}); !errors.Is(err, ErrInvalid) {
			t.Errorf("a limit that does not hold: %v", err)
		}
		return
	}
	dir, fd := p.volume("v", Limit{Bytes: 10 * mib, Inodes: 10})
	n := 0
	var err error
	for ; err == nil && n < 20; n++ {
		err = os.WriteFile(fmt.Sprintf("%s/%d", dir, n), nil, 0o666)
	}
	if !errors.Is(err, d.full) || n != 10 { // nine files beside the directory, and the refused one
		t.Errorf("%d files, %v", n, err)
	}
	if u := p.usage(fd); u.Inodes != 10 || u.Limit.Inodes != 10 {
		t.Errorf("usage %+v", u)
	}
	if _, err := p.Set(fd, Limit{Bytes: 10 * mib, Inodes: 5}); !errors.Is(err, ErrUsed) {
		t.Errorf("lowered below what is in use: %v", err)
	}
	if _, err := p.Set(fd, Limit{Bytes: 10 * mib}); err != nil {
		t.Fatal(err)
	}
	ok(t, os.WriteFile(dir+"/more", nil, 0o666))
}

// The same limit again changes nothing, neither the ID nor the use.
func testSetAgain(t *testing.T, _ disk, p pool) {
	_, fd := p.volume("v", Limit{Bytes: 10 * mib})
	first, err := p.Set(fd, Limit{Bytes: 10 * mib})
	ok(t, err)
	again, err := p.Set(fd, Limit{Bytes: 20 * mib})
	ok(t, err)
	if first != again || first < firstID || first > lastID {
		t.Errorf("IDs %d and %d", first, again)
	}
}

// What is not a new directory of ours gets no limit, and is left as it is.
func testForeign(t *testing.T, d disk, p pool) {
	ok(t, p.Make(p.base, "full"))
	ok(t, os.WriteFile(p.path+"/full/f", nil, 0o666))
	full := open(t, p.path+"/full")
	if _, err := p.Set(full, Limit{Bytes: mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory with content: %v", err)
	}
	if _, err := p.Usage(full); !errors.Is(err, ErrUnlimited) {
		t.Errorf("usage of a directory without a limit: %v", err)
	}
	ok(t, os.Mkdir(p.path+"/other", 0o777))
	other := open(t, p.path+"/other")
	if d.method != MethodBtrfs {
		a, err := Get(other)
		ok(t, err)
		a.Project = 42
		ok(t, Set(other, a))
	}
	if _, err := p.Set(other, Limit{Bytes: mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory of somebody else: %v", err)
	}
}

// Staging, place, trash: the limit goes along.
func testRenameKeepsTheLimit(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 4 * mib})
	n, err := fill(dir + "/f")
	if !errors.Is(err, d.full) || n > 4*mib {
		t.Errorf("in place: %d bytes, %v", n, err)
	}
	ok(t, unix.Renameat2(p.base, "v", p.bins, "id", unix.RENAME_NOREPLACE))
	if n, err := fill(p.path + "/trash/id/g"); err == nil || n > mib {
		t.Errorf("in the trash: %d bytes, %v", n, err)
	}
	if u := p.usage(fd); u.Limit.Bytes != 4*mib {
		t.Errorf("usage %+v", u)
	}
}

// Nothing comes in past the limit by a rename or a hard link.
func testOutsideStaysOutside(t *testing.T, _ disk, p pool) {
	dir, _ := p.volume("v", Limit{Bytes: 4 * mib})
	ok(t, os.WriteFile(p.path+"/outside", make([]byte, 6*mib), 0o666))
	if err := os.Rename(p.path+"/outside", dir+"/inside"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("rename: %v", err)
	}
	if err := os.Link(p.path+"/outside", dir+"/inside"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("link: %v", err)
	}
}

// Two volumes never share an ID, though there are hardly more than volumes.
func testConcurrent(t *testing.T, _ disk, p pool) {
	const volumes = 64
	if e, narrow := p.Enforcer.(project); narrow {
		e.candidate = func() uint32 { return firstID + rand.Uint32N(volumes*3/2) }
		p.Enforcer = e
	}
	ids := make([]uint64, volumes)
	fds := make([]int, volumes)
	var all sync.WaitGroup
	for i := range volumes {
		name := fmt.Sprint(i)
		ok(t, p.Make(p.stage, name))
		fds[i] = open(t, p.path+"/staging/"+name)
		all.Go(func() {
			id, err := p.Set(fds[i], Limit{Bytes: int64(i+1) * mib})
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
			if _, err := p.Sweep(p.base); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	of := map[uint64]int{}
	for i, id := range ids {
		if other, taken := of[id]; taken {
			t.Errorf("volumes %d and %d share the ID %d", i, other, id)
		}
		of[id] = i
		if u := p.usage(fds[i]); u.Limit.Bytes != int64(i+1)*mib {
			t.Errorf("volume %d: usage %+v", i, u)
		}
	}
}

// A limit that belongs to no directory is found and cleared; all others stay.
func testSweep(t *testing.T, d disk, p pool) {
	if n, err := p.Sweep(p.base); n != 0 || err != nil {
		t.Errorf("every limit is in use, and %d were cleared, %v", n, err)
	}
	_, kept := p.volume("kept", Limit{Bytes: 4 * mib})
	dir, fd := p.volume("gone", Limit{Bytes: 4 * mib})
	ok(t, os.WriteFile(dir+"/f", make([]byte, mib), 0o666))
	shut(fd)
	removed, err := p.Remove(p.base, "gone")
	ok(t, err)
	if removed != (d.method == MethodBtrfs) {
		t.Errorf("removed at once: %v", removed)
	}
	ok(t, os.RemoveAll(dir))
	total := 0
	await(t, "the limit to be cleared", func() bool {
		flush(t, p.base)
		n, err := p.Sweep(p.base)
		ok(t, err)
		total += n
		return total > 0
	})
	if n, err := p.Sweep(p.base); total != 1 || n != 0 || err != nil {
		t.Errorf("cleared %d limits, then %d, %v", total, n, err)
	}
	if u := p.usage(kept); u.Limit.Bytes != 4*mib {
		t.Errorf("the other volume: %+v", u)
	}
}

func testSurvivesRemount(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 4 * mib})
	ok(t, os.WriteFile(dir+"/f", make([]byte, mib), 0o666))
	for _, fd := range []int{fd, p.base, p.stage, p.bins} {
		shut(fd)
	}
	d.remount(t, p.root)
	fd = open(t, dir)
	if u := p.usage(fd); u.Limit.Bytes != 4*mib || u.Bytes < mib {
		t.Errorf("usage %+v", u)
	}
	if n, err := fill(dir + "/g"); !errors.Is(err, d.full) || n > 3*mib {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}
