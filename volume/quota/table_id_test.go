//go:build disk || vm

package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The same quota again changes nothing, another quota does not change the ID, and another
// volume's ID is not taken for the volume's own.
func testSetAgain(t *testing.T, _ disk, p pool) {
	_, fd := p.volume("v", Limit{Bytes: 10 * mib})
	first, err := p.again(fd, Limit{Bytes: 10 * mib})
	ok(t, err)
	again, err := p.Set(fd, first, Limit{Bytes: 20 * mib})
	ok(t, err)
	if first != again || first < firstID || first > lastID {
		t.Errorf("IDs %d and %d", first, again)
	}
	if _, err := p.Set(fd, first+1, Limit{Bytes: 30 * mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory with another ID than it was given: %v", err)
	}
	if u := p.usage(fd); u.Limit.Bytes != 20*mib {
		t.Errorf("usage %+v", u)
	}
	if p.Support().Method == MethodBtrfs {
		return // a subvolume cannot change its ID
	}
	if _, err := p.Set(fd, 0, Limit{Bytes: 30 * mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory with an ID that it was not given: %v", err)
	}
}

// A directory whose owner gave it another volume's ID, none, or one that nothing
// has: only the ID that it was given is counted and changed, and it gets that back.
func testStray(t *testing.T, d disk, p pool) {
	if d.method == MethodBtrfs {
		return // a subvolume cannot change its ID
	}
	dir, fd := p.volume("v", Limit{Bytes: 8 * mib})
	own, err := projectOf(fd)
	ok(t, err)
	ok(t, os.WriteFile(dir+"/f", make([]byte, 2*mib), 0o666))
	_, other := p.volume("other", Limit{Bytes: 16 * mib})
	others, err := projectOf(other)
	ok(t, err)
	given := uint64(own)
	for name, shown := range map[string]Attr{
		"another volume's": {Project: others, Flags: ProjectInherit}, "none": {},
		"one that nothing has": {Project: lastID, Flags: ProjectInherit}, "its own, not handed down": {Project: own},
	} {
		a, err := GetAttr(fd)
		ok(t, err)
		a.Project, a.Flags = shown.Project, a.Flags&^ProjectInherit|shown.Flags
		ok(t, SetAttr(fd, a))
		if _, err := p.Set(fd, given, Limit{Bytes: 9 * mib}); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: set: %v", name, err)
		}
		flush(t, fd)
		if u, err := p.Usage(fd, given); !errors.Is(err, ErrForeign) || u.Limit.Bytes != 8*mib || u.Bytes < 2*mib {
			t.Errorf("%s: usage %+v, %v", name, u, err)
		}
		ok(t, p.Enforcer.(Restorer).Restore(fd, given))
		if u, err := p.Usage(fd, given); err != nil || u.Limit.Bytes != 8*mib {
			t.Errorf("%s: restored: usage %+v, %v", name, u, err)
		}
		if u := p.usage(other); u.Limit.Bytes != 16*mib || u.Bytes > mib {
			t.Errorf("%s: the other volume: %+v", name, u)
		}
	}
	for _, id := range []uint64{0, 42, lastID + 1} {
		if err := p.Enforcer.(Restorer).Restore(fd, id); !errors.Is(err, ErrInvalid) {
			t.Errorf("restored to %d: %v", id, err)
		}
	}
}

// A recorded ID is not given to another volume, though the kernel counts nothing for it.
func testTaken(t *testing.T, d disk, p pool) {
	e, narrow := p.Enforcer.(project)
	if !narrow {
		return // a btrfs has no ID to choose
	}
	next := uint32(lastID - 10)
	e.candidate = func() uint32 { next++; return next }
	e.taken = func(id uint64) bool { return id <= lastID-5 }
	p.Enforcer = e
	_, fd := p.volume("v", Limit{Bytes: 4 * mib})
	if id, err := projectOf(fd); err != nil || id != lastID-4 {
		t.Errorf("ID %d, %v", id, err)
	}
}

// A directory that the agent did not just create gets no quota, and stays as it is.
func testForeign(t *testing.T, d disk, p pool) {
	ok(t, p.Make(p.base, "full"))
	ok(t, os.WriteFile(p.path+"/full/f", nil, 0o666))
	full := open(t, p.path+"/full")
	if _, err := p.Set(full, 0, Limit{Bytes: mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory with content: %v", err)
	}
	if _, err := p.Usage(full, 0); !errors.Is(err, ErrUnlimited) {
		t.Errorf("usage of a directory without a limit: %v", err)
	}
	ok(t, os.Mkdir(p.path+"/other", 0o777))
	other := open(t, p.path+"/other")
	if d.method != MethodBtrfs {
		a, err := GetAttr(other)
		ok(t, err)
		a.Project = 42
		ok(t, SetAttr(other, a))
	}
	if _, err := p.Set(other, 0, Limit{Bytes: mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory of somebody else: %v", err)
	}
}

// The quota follows the directory from staging into place and into the trash.
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

// Neither a rename nor a hard link brings in data past the quota.
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
			id, err := p.Set(fds[i], 0, Limit{Bytes: int64(i+1) * mib})
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

// A quota that belongs to no directory is found and cleared; all others stay.
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
	swept(t, p)
	if u := p.usage(kept); u.Limit.Bytes != 4*mib {
		t.Errorf("the other volume: %+v", u)
	}
}

// swept waits until the one quota that is left over is cleared, and no other.
func swept(t *testing.T, p pool) {
	t.Helper()
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
