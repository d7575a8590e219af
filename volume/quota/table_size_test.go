//go:build disk || vm

package quota

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testWritePastTheLimit(t *testing.T, d disk, p pool) {
	dir, fd := p.volume("v", Limit{Bytes: 10 * mib})
	n, err := fill(dir + "/f")
	if !errors.Is(err, d.full) {
		t.Errorf("wrote %d bytes, %v; want %v", n, err, d.full)
	}
	if n < 8*mib || n > 10*mib {
		t.Errorf("wrote %d bytes of 10 MiB", n)
	}
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
	neighbour, fd := p.volume("neighbour", Limit{Bytes: 10 * mib})
	ok(t, os.WriteFile(neighbour+"/f", make([]byte, mib), 0o666))
	if u := p.usage(fd); u.Bytes < mib {
		t.Errorf("before it is written back: usage %+v, wrote 1 MiB", u)
	}
}

func testRoundedUp(t *testing.T, _ disk, p pool) {
	_, fd := p.volume("v", Limit{Bytes: 10*mib + 1})
	var st unix.Statfs_t
	ok(t, unix.Fstatfs(p.base, &st))
	if u := p.usage(fd); u.Limit.Bytes != 10*mib+st.Bsize {
		t.Errorf("limit %d, block size %d", u.Limit.Bytes, st.Bsize)
	}
	for _, bytes := range []int64{0, -1, 1<<60 + 1} {
		if _, err := p.again(fd, Limit{Bytes: bytes}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// A writer that reached the quota continues after it was raised, with the same open file, while
// another one writes.
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
	if _, err := p.again(fd, Limit{Bytes: 12 * mib}); err != nil {
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
	if _, err := p.again(fd, Limit{Bytes: 4 * mib}); !errors.Is(err, ErrUsed) {
		t.Errorf("lowered below what is in use: %v", err)
	}
	if u := p.usage(fd); u.Limit.Bytes != 10*mib {
		t.Errorf("usage %+v", u)
	}
	if _, err := p.again(fd, Limit{Bytes: 8 * mib}); err != nil {
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
		if _, err := p.again(fd, Limit{Bytes: 10 * mib, Inodes: 10}); !errors.Is(err, ErrInvalid) {
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
	if _, err := p.again(fd, Limit{Bytes: 10 * mib, Inodes: 5}); !errors.Is(err, ErrUsed) {
		t.Errorf("lowered below what is in use: %v", err)
	}
	if _, err := p.again(fd, Limit{Bytes: 10 * mib}); err != nil {
		t.Fatal(err)
	}
	ok(t, os.WriteFile(dir+"/more", nil, 0o666))
}
