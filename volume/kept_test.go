package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const keptDir = private + "/kept"

// A shelf is a pool that keeps deleted volumes, on an invented disk and clock.
type shelf struct {
	*volume.Pool
	t *testing.T
	c volume.Config

	mu    sync.Mutex
	clock time.Duration
	disk  func(*unix.Statfs_t)
}

func newShelf(t *testing.T, retention time.Duration) *shelf {
	t.Helper()
	s := &shelf{t: t}
	s.c = volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Holder: "test", TrashRetention: retention,
		TrashRetentionMax: 168 * time.Hour,
		Running: func() time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.clock
		},
		Figures: func(st *unix.Statfs_t) {
			s.mu.Lock()
			defer s.mu.Unlock()
			st.Frsize, st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree = 4096, 1<<20, 1<<20, 1<<20, 1<<20, 1<<20
			if s.disk != nil {
				s.disk(st)
			}
		}}
	s.open()
	return s
}

// open opens the pool in a new process.
func (s *shelf) open() {
	s.t.Helper()
	if s.Pool != nil {
		ok(s.t, s.Close())
	}
	s.Pool = opened(s.t, s.c)
}

// runs lets the process run for so long.
func (s *shelf) runs(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock += d
}

// full sets how many bytes are free.
func (s *shelf) full(free int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = func(st *unix.Statfs_t) { st.Bfree, st.Bavail = uint64(free/4096), uint64(free/4096) }
}

// filled makes a bound volume of a namespace with so many bytes of data.
func (s *shelf) filled(name, namespace string, data int64) {
	s.t.Helper()
	spec := spec(name, gib)
	spec.Owner.Namespace = namespace
	v, err := s.Create(spec)
	ok(s.t, err)
	_, err = s.Bind(name, binding(name))
	ok(s.t, err)
	f, err := os.Create(filepath.Join(v.Path, "data"))
	ok(s.t, err)
	_, err = f.WriteString(strings.Repeat(name, int(data)/len(name)))
	ok(s.t, errors.Join(err, f.Sync(), f.Close()))
}

// deletes makes bound volumes with data, and deletes them. It returns their IDs.
func (s *shelf) deletes(names ...string) (ids []string) {
	s.t.Helper()
	for _, name := range names {
		s.filled(name, "default", mib)
		r, _ := s.Cached(name)
		ok(s.t, s.Delete(name))
		ids = append(ids, r.Trash)
	}
	return ids
}

// keeps checks which volumes are kept, by name, in memory and on the disk.
func (s *shelf) keeps(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	var got, entries []string
	for _, k := range s.Kept() {
		got, entries = append(got, k.Record.Name), append(entries, k.ID, k.ID+record.Suffix)
	}
	slices.Sort(got)
	slices.Sort(entries)
	if !slices.Equal(got, want) {
		s.t.Fatalf("kept are %q, want %q", got, want)
	}
	if len(want) == 0 && !there(filepath.Join(s.Path(), keptDir)) {
		return
	}
	if disk := names(s.t, filepath.Join(s.Path(), keptDir)); !slices.Equal(disk, entries) {
		s.t.Fatalf("on the disk %q are kept, want %q", disk, entries)
	}
}

// A volume is kept for the time of its pool or its class, and brought back with its data, its size and
// its owner. Its policy is Retain, and it is no orphan.
func TestUndelete(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.filled("v", "team", mib)
	_, err := s.NoteOrphan("v", "its PV is gone", time.Minute)
	ok(t, err)
	before, _ := s.Cached("v")
	ok(t, s.Delete("v"))
	for range 2 { // in this process, and in the next
		purge(t, s.Pool)
		s.keeps("v")
		_, err = s.Get("v")
		is(t, err, volume.ErrNotFound)
		if sp, err := s.Space(); err != nil || sp.Allocated != 0 {
			t.Errorf("allocated %d, %v", sp.Allocated, err)
		}
		s.open()
	}
	k := s.Kept()[0]
	if k.Record.Owner != before.Owner || k.For != time.Hour || time.Since(k.Since) > time.Minute || k.Why != "" {
		t.Errorf("kept is %+v", k)
	}
	_, err = s.Undelete("OTHER")
	is(t, err, volume.ErrNotFound)
	v, err := s.Undelete(k.ID)
	ok(t, err)
	want := before
	want.ReclaimPolicy, want.Orphan, want.Trash = "Retain", record.Orphan{}, v.Trash
	if v.Record != want || v.Trash == before.Trash {
		t.Errorf("brought back %+v, want %+v", v.Record, want)
	}
	if data, err := os.ReadFile(filepath.Join(v.Path, "data")); int64(len(data)) != mib || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	s.keeps()
	_, err = s.Undelete(k.ID)
	is(t, err, volume.ErrNotFound)
	for range 2 {
		consistent(t, s.Pool)
		purge(t, s.Pool)
		s.open()
	}
	if got := onDisk(t, s.Pool, "v"); got.ReclaimPolicy != "Retain" || got.Orphan.Why != "" || got.Returning != "" {
		t.Errorf("on disk %+v", got)
	}
}

// Without a retention nothing is kept, and the pool has no other file than before.
func TestNotKept(t *testing.T) {
	for name, row := range map[string]struct {
		retention time.Duration
		spec      func(*volume.Spec)
		empty     bool
		unbound   bool
	}{
		"no retention":          {},
		"never, says the class": {retention: time.Hour, spec: func(s *volume.Spec) { s.TrashRetention = -1 }},
		"inline":                {retention: time.Hour, spec: func(s *volume.Spec) { s.Ephemeral, s.PV = true, "" }, unbound: true},
		"empty":                 {retention: time.Hour, empty: true},
		"never bound":           {retention: time.Hour, unbound: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, row.retention)
			made := spec("v", gib)
			if row.spec != nil {
				row.spec(&made)
			}
			v, err := s.Create(made)
			ok(t, err)
			if !row.unbound {
				_, err = s.Bind("v", binding("v"))
				ok(t, err)
			}
			if !row.empty {
				write(t, filepath.Join(v.Path, "data"), "x")
			}
			ok(t, s.Delete("v"))
			if got := names(t, filepath.Join(s.Path(), trash)); len(got) != 2 {
				t.Errorf("the trash has %q", got)
			}
			purge(t, s.Pool)
			s.runs(time.Hour)
			purge(t, s.Pool)
			if got := names(t, filepath.Join(s.Path(), private)); !slices.Equal(got, []string{"lock", "pool.json", "records", "staging", "trash"}) {
				t.Errorf("the pool has %q", got)
			}
		})
	}
}

// A class keeps a volume for its own time, up to what the node permits now.
func TestRetentionOfClass(t *testing.T) {
	s := newShelf(t, time.Hour)
	made := spec("v", gib)
	made.TrashRetention = int64((169 * time.Hour).Seconds())
	_, err := s.Create(made)
	is(t, err, volume.ErrInvalid)
	made.TrashRetention = int64((100 * time.Hour).Seconds())
	v, err := s.Create(made)
	ok(t, err)
	_, err = s.Bind("v", binding("v"))
	ok(t, err)
	write(t, filepath.Join(v.Path, "data"), "x")
	ok(t, s.Delete("v"))
	if got := s.Kept()[0].For; got != 100*time.Hour {
		t.Errorf("kept for %s", got)
	}
	s.c.TrashRetentionMax = 50 * time.Hour
	s.open()
	if got := s.Kept()[0].For; got != 50*time.Hour {
		t.Errorf("kept for %s", got)
	}
	s.runs(50*time.Hour - time.Second)
	purge(t, s.Pool)
	s.keeps("v")
	s.runs(time.Second)
	purge(t, s.Pool)
	s.keeps()
}

// Time is the running time of agents, which is written every ten minutes. A clock that is wrong does
// not count, and without the file the volume is kept for longer.
func TestKeptForRunningTime(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.deletes("v")
	age := func(want time.Duration) {
		t.Helper()
		if got := s.Kept()[0].Age; got != want {
			t.Fatalf("kept for %s so far, want %s", got, want)
		}
	}
	s.runs(9 * time.Minute)
	purge(t, s.Pool)
	age(9 * time.Minute)
	s.open() // nothing was written yet
	age(0)
	s.runs(10 * time.Minute)
	purge(t, s.Pool)
	s.runs(5 * time.Minute)
	purge(t, s.Pool)
	s.open()
	age(10 * time.Minute)
	since := s.Kept()[0].Since
	old := time.Now().AddDate(-1, 0, 0) // as after a clock that was a year ahead
	ok(t, os.Chtimes(filepath.Join(s.Path(), keptDir, s.Kept()[0].ID), old, old))
	s.open()
	if s.Kept()[0].Since != since {
		t.Errorf("deleted at %s, want %s", s.Kept()[0].Since, since)
	}
	write(t, filepath.Join(s.Path(), private, "kept.json"), // by a clock that was a year ahead
		fmt.Sprintf(`{%q: {"seconds": 600, "since": %q}}`, s.Kept()[0].ID, time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)))
	s.open()
	age(10 * time.Minute)
	s.runs(50*time.Minute - time.Second)
	purge(t, s.Pool)
	s.keeps("v")
	write(t, filepath.Join(s.Path(), private, "kept.json"), "{")
	s.open()
	if age(0); len(s.Warnings()) != 1 {
		t.Errorf("warnings %q", s.Warnings())
	}
	s.runs(time.Hour)
	purge(t, s.Pool)
	s.keeps()
}

// Undelete refuses what would destroy or exceed something.
func TestUndeleteRefused(t *testing.T) {
	s := newShelf(t, time.Hour)
	id := s.deletes("v")[0]
	purge(t, s.Pool)

	mkdir(t, filepath.Join(s.Path(), "v"))
	_, err := s.Undelete(id)
	is(t, err, volume.ErrConflict)
	ok(t, os.Remove(filepath.Join(s.Path(), "v")))

	create(t, s.Pool, "v")
	_, err = s.Undelete(id)
	is(t, err, volume.ErrConflict)
	ok(t, s.RollBack("v"))

	s.full(gib - 2*mib) // it needs a GiB, of which it has one MiB
	_, err = s.Undelete(id)
	is(t, err, volume.ErrNoSpace)
	var full *fault.SpaceError
	if !errors.As(err, &full) || full.MakingRoom {
		t.Errorf("%v", err)
	}
	purge(t, s.Pool)
	s.keeps("v")
	s.full(gib - mib)
	_, err = s.Undelete(id)
	ok(t, err)
}

// While a volume is being brought back and cannot be, nothing removes what is kept of it. It comes back
// once it can.
func TestUndeleteUnfinished(t *testing.T) {
	s := newShelf(t, time.Hour)
	inTheWay := filepath.Join(s.Path(), "v")
	when := "restore.rename"
	s.c.Step = func(step string) {
		if step == when {
			mkdir(t, inTheWay)
		}
	}
	s.open()
	id := s.deletes("v")[0]
	_, err := s.Undelete(id)
	is(t, err, volume.ErrConflict)
	when = ""
	for range 2 {
		_, err = s.Undelete(id)
		is(t, err, volume.ErrConflict)
		if err := s.DropKept(id); !errors.Is(err, volume.ErrConflict) && !errors.Is(err, volume.ErrNotFound) {
			t.Error(err)
		}
		s.runs(2 * time.Hour)
		_, err = s.Purge(t.Context())
		if err != nil && !errors.Is(err, volume.ErrConflict) {
			t.Error(err)
		}
		if !there(filepath.Join(s.Path(), keptDir, id, "data")) {
			t.Fatal("the data is gone")
		}
	}
	if sp, err := s.Space(); err != nil || sp.Allocated != gib {
		t.Errorf("allocated %d, %v", sp.Allocated, err)
	}
	ok(t, os.Remove(inTheWay))
	ok(t, s.Recover())
	v, err := s.Get("v")
	ok(t, err)
	if v.State != record.Bound || !there(filepath.Join(v.Path, "data")) {
		t.Errorf("%+v", v)
	}
	s.keeps()
	purge(t, s.Pool)
	consistent(t, s.Pool)
}

// What a person did to the directory of kept volumes is noticed: nothing comes back without its data, or
// with another volume's, and nothing is removed for it.
func TestKeptChangedByHand(t *testing.T) {
	s := newShelf(t, time.Hour)
	ids := s.deletes("v", "w")
	purge(t, s.Pool)
	at := func(name string) string { return filepath.Join(s.Path(), keptDir, name) }
	move := func(from, to string) { t.Helper(); ok(t, os.Rename(at(from), at(to))) }

	move(ids[0], "away")
	_, err := s.Undelete(ids[0])
	is(t, err, volume.ErrNotFound)
	move("away", ids[0])

	move(ids[0]+record.Suffix, "away")
	move(ids[1]+record.Suffix, ids[0]+record.Suffix)
	for range 2 {
		for _, id := range ids {
			_, err = s.Undelete(id)
			is(t, err, volume.ErrConflict)
			is(t, s.DropKept(id), volume.ErrConflict)
		}
		s.runs(time.Hour)
		_, err = s.Purge(t.Context())
		is(t, err, volume.ErrConflict)
		if !there(at(ids[0]+"/data")) || !there(at(ids[1]+"/data")) {
			t.Fatal("data is gone")
		}
	}
	move(ids[0]+record.Suffix, ids[1]+record.Suffix)
	move("away", ids[0]+record.Suffix)
	for _, id := range ids {
		_, err = s.Undelete(id)
		ok(t, err)
	}
	consistent(t, s.Pool)
}

// What was deferred is in the record of a kept volume: a volume may be deleted before the purge that would
// write it.
func TestKeptRecordIsWritten(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.filled("v", "default", mib)
	_, err := s.RecordClaim("v", binding("v").PV, binding("v").Owner, describedClaim())
	ok(t, err)
	before, _ := s.Cached("v")
	ok(t, s.Delete("v"))
	s.open()
	got := s.Kept()[0].Record
	if !got.Claim.Equal(before.Claim) || got.PVUID != before.PVUID || got.State != record.Bound || got.PVUID == "" {
		t.Errorf("kept is %+v, want %+v", got, before)
	}
}

// If the directory of kept volumes cannot be created, the volume stays.
func TestKeptWithoutDirectory(t *testing.T) {
	s := newShelf(t, time.Hour)
	file := filepath.Join(s.Path(), keptDir)
	s.filled("v", "default", mib)
	write(t, file, "")
	if err := s.Delete("v"); err == nil {
		t.Error("deleted")
	}
	if v, err := s.Get("v"); err != nil || v.Missing {
		t.Errorf("%+v, %v", v, err)
	}
	ok(t, os.Remove(file))
	ok(t, s.Delete("v"))
	s.keeps("v")
}

// A directory of kept volumes that was replaced is as a lost disk.
func TestKeptReplaced(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.deletes("v")
	dir := filepath.Join(s.Path(), keptDir)
	ok(t, os.Rename(dir, dir+"-away"))
	mkdir(t, dir)
	is(t, s.Ready(), volume.ErrNotReady)
	ok(t, os.Remove(dir))
	ok(t, os.Rename(dir+"-away", dir))
	ok(t, s.Ready())
}

// A volume of the name of a kept one has another time of creation, however soon it is created.
func TestCreatedAfterKept(t *testing.T) {
	s := newShelf(t, time.Hour)
	for range 3 {
		s.deletes("v")
	}
	created := map[time.Time]bool{}
	for _, k := range s.Kept() {
		created[k.Record.Created] = true
	}
	if len(created) != 3 {
		t.Errorf("created at %v", created)
	}
}

// A request to remove what is kept moves it to the trash; what is not kept is an error.
func TestDropKept(t *testing.T) {
	s := newShelf(t, time.Hour)
	ids := s.deletes("v", "w")
	is(t, s.DropKept("OTHER"), volume.ErrNotFound)
	is(t, s.DropKept(ids[0], "OTHER"), volume.ErrNotFound)
	s.keeps("w")
	_, err := s.Undelete(ids[0])
	is(t, err, volume.ErrNotFound)
	purge(t, s.Pool)
	s.open()
	s.keeps("w")
	_, err = s.Undelete(ids[1])
	ok(t, err)
	is(t, s.DropKept(ids[1]), volume.ErrNotFound)
}

// Inspect shows what is kept, beside the process that owns the pool.
func TestInspectKept(t *testing.T) {
	s := newShelf(t, 24*time.Hour)
	id := s.deletes("v")[0]
	s.runs(10 * time.Minute)
	purge(t, s.Pool)
	r, err := inspect.Read(s.Path())
	ok(t, err)
	if len(r.Kept) != 1 || len(r.Trash) != 0 || len(r.Volumes) != 0 {
		t.Fatalf("report %+v", r)
	}
	k := r.Kept[0]
	if k.ID != id || k.Name != "v" || k.Bytes != gib || k.Owner != spec("v", 1).Owner || k.Seconds != 600 || k.Frees < mib ||
		time.Since(k.Since) > time.Minute || r.Space.Kept != k.Frees {
		t.Errorf("kept %+v, space %+v", k, r.Space)
	}
}
