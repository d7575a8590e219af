package volume_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// small gives the pool an invented disk of that size, which has what is in the pool.
func (s *shelf) small(total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = func(st *unix.Statfs_t) {
		st.Blocks = uint64(total / 4096)
		st.Bfree = uint64((total - max(0, min(total, s.used()))) / 4096)
		st.Bavail = st.Bfree
	}
}

// used returns the bytes of the files in the pool.
func (s *shelf) used() (sum int64) {
	_ = filepath.WalkDir(s.c.Path, func(path string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err == nil && d.Name() == "data" {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// sized creates a bound volume with an allocation, and data in it.
func (s *shelf) sized(name, namespace string, bytes, data int64) error {
	spec := spec(name, bytes)
	spec.Owner.Namespace = namespace
	v, err := s.Create(spec)
	if err == nil {
		_, err = s.Bind(name, binding(name))
	}
	if err == nil {
		write(s.t, filepath.Join(v.Path, "data"), strings.Repeat("x", int(data)))
	}
	return err
}

// keepsOne creates, deletes and measures a volume full of data.
func (s *shelf) keepsOne(name, namespace string, bytes int64) {
	s.t.Helper()
	ok(s.t, s.sized(name, namespace, bytes, bytes))
	ok(s.t, s.Delete(name))
	s.measured()
}

// measured measures what is kept.
func (s *shelf) measured() {
	s.t.Helper()
	unix.Sync() // a file that is not on the disk yet has no extents
	for range 2 {
		purge(s.t, s.Pool)
		s.runs(time.Minute)
	}
}

// makingRoom fails the test unless the error is that room is being made.
func makingRoom(t *testing.T, err error, want bool) {
	t.Helper()
	var full *fault.SpaceError
	if !errors.As(err, &full) || full.MakingRoom != want {
		t.Fatalf("%v: making room: %v", err, full)
	}
	is(t, err, volume.ErrNoSpace)
}

func (s *shelf) space(available, kept int64) {
	s.t.Helper()
	near := func(a, b int64) bool { return max(a-b, b-a) < mib/8 } // directories have blocks, too
	if sp, err := s.Space(); err != nil || !near(sp.Available, available) || !near(sp.Kept, kept) {
		s.t.Errorf("available %d, kept %d, %v; want %d and %d", sp.Available, sp.Kept, err, available, kept)
	}
}

// On a full pool a claim gets the room of kept volumes, and another grows into it: each after a purge. A
// volume that is brought back gets it from the others.
func TestRoomOfKept(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.small(20 * mib)
	s.keepsOne("a", "team", 4*mib)
	s.keepsOne("b", "team", 4*mib)
	s.keepsOne("c", "other", 4*mib)
	s.space(8*mib, 12*mib)
	ok(t, s.sized("x", "team", 8*mib, 0)) // takes nothing of what is kept
	s.keeps("a", "b", "c")
	s.space(0, 12*mib)

	makingRoom(t, s.sized("y", "team", 4*mib, 0), true)
	select {
	case <-s.RoomWanted():
	default:
		t.Error("no purge is asked for")
	}
	makingRoom(t, s.sized("y", "team", 4*mib, 0), true) // still
	s.keeps("a", "b", "c")
	purge(t, s.Pool)
	s.keeps("b", "c")
	ok(t, s.sized("y", "team", 4*mib, 0))

	_, err := s.Expand("x", 12*mib)
	makingRoom(t, err, true)
	purge(t, s.Pool)
	if _, err = s.Expand("x", 12*mib); err != nil {
		t.Error(err)
	}
	if got := len(s.Kept()); got != 1 {
		t.Errorf("%d are kept", got)
	}

	_, err = s.Expand("y", 12*mib)
	makingRoom(t, err, false) // not even without what is kept
	purge(t, s.Pool)
	if got := len(s.Kept()); got != 1 {
		t.Errorf("%d are kept", got)
	}
}

// A volume comes back into a full pool: the room is that of the other kept volumes, never its own.
func TestRoomForUndelete(t *testing.T) {
	s := newShelf(t, time.Hour)
	s.small(20 * mib)
	ok(t, s.sized("v", "team", 8*mib, 2*mib))
	ok(t, s.Delete("v"))
	s.runs(time.Minute) // it is the oldest
	s.keepsOne("w", "team", 4*mib)
	ok(t, s.sized("x", "team", 9*mib, 0))
	s.space(5*mib, 6*mib)
	ids := map[string]string{}
	for _, k := range s.Kept() {
		ids[k.Record.Name] = k.ID
	}
	_, err := s.Undelete(ids["v"]) // 8 MiB, of which it has 2
	makingRoom(t, err, true)
	purge(t, s.Pool)
	s.keeps("v")
	_, err = s.Undelete(ids["v"])
	ok(t, err)
	s.keeps()
}

// The removals for one claim that free less than was expected are not repeated for ten minutes, and the
// missing bytes are not offered.
func TestRoomInVain(t *testing.T) {
	s := newShelf(t, 24*time.Hour)
	s.small(20 * mib)
	for _, name := range []string{"a", "b", "c"} {
		s.keepsOne(name, "team", 4*mib)
	}
	ok(t, s.sized("x", "team", 8*mib, 0))
	s.mu.Lock()
	s.disk = func(st *unix.Statfs_t) { // whatever is removed
		st.Blocks, st.Bfree, st.Bavail = 20*uint64(mib)/4096, 8*uint64(mib)/4096, 8*uint64(mib)/4096
	}
	s.mu.Unlock()
	makingRoom(t, s.sized("y", "team", 4*mib, 0), true)
	purge(t, s.Pool)
	s.keeps("b", "c")
	makingRoom(t, s.sized("y", "team", 4*mib, 0), true) // the filesystem may free them late
	s.space(0, 12*mib)
	s.runs(time.Minute)
	s.space(0, 4*mib)
	for range 8 {
		makingRoom(t, s.sized("y", "team", 4*mib, 0), false)
		purge(t, s.Pool)
		s.keeps("b", "c")
		s.runs(time.Minute)
	}
	makingRoom(t, s.sized("y", "team", 4*mib, 0), false)
	s.runs(time.Minute)
	makingRoom(t, s.sized("y", "team", 4*mib, 0), true)
	purge(t, s.Pool)
	if got := len(s.Kept()); got != 1 {
		t.Errorf("%d are kept", got)
	}
}

// Of ten tenants one creates and deletes in a loop: what the others deleted stays.
func TestRoomOfTheGreedy(t *testing.T) {
	s := newShelf(t, 24*time.Hour)
	s.small(40 * mib)
	var others []string
	for i := range 9 {
		name := fmt.Sprint("other", i)
		others = append(others, name)
		s.keepsOne(name, fmt.Sprint("team", i), mib)
	}
	for i := range 30 {
		name := fmt.Sprint("greedy", i)
		for range 2 {
			if err := s.sized(name, "greedy", 4*mib, 4*mib); err == nil {
				break
			}
			s.measured()
		}
		ok(t, s.Delete(name))
		s.measured()
	}
	var kept []string
	for _, k := range s.Kept() {
		kept = append(kept, k.Record.Name)
	}
	slices.Sort(kept)
	for _, name := range others {
		if !slices.Contains(kept, name) {
			t.Errorf("%s is gone", name)
		}
	}
	if len(kept) < 12 || slices.Contains(kept, "greedy0") || !slices.Contains(kept, "greedy29") {
		t.Errorf("kept are %q", kept)
	}
}

// A purge makes room before the filesystem is full, for the kubelet evicts pods then: for bytes, and for
// inodes. It removes no more than is needed, and nothing that frees nothing for sure.
func TestRoomOfFilesystem(t *testing.T) {
	s := newShelf(t, 24*time.Hour)
	s.small(40 * mib)
	for _, name := range []string{"a", "b", "c"} {
		s.keepsOne(name, "team", 4*mib)
	}
	s.hurries(false)
	s.small(13 * mib) // 1 MiB of 13 is free
	s.hurries(true)
	s.hurries(false) // for ten seconds
	purge(t, s.Pool)
	s.keeps("b", "c")
	purge(t, s.Pool)
	s.keeps("b", "c")
	s.runs(10 * time.Second)
	s.hurries(false)
	s.mu.Lock()
	s.disk = func(st *unix.Statfs_t) { st.Ffree = st.Files/20 - 1 }
	s.mu.Unlock()
	purge(t, s.Pool)
	s.keeps("c")
	s.mu.Lock()
	s.disk = func(st *unix.Statfs_t) { st.Ffree = 1 }
	s.mu.Unlock()
	_, err := s.Create(spec("x", mib))
	makingRoom(t, err, true)
	purge(t, s.Pool)
	s.keeps()
}

// hurries checks whether Space finds that a purge is due at once.
func (s *shelf) hurries(want bool) {
	s.t.Helper()
	_, err := s.Space()
	ok(s.t, err)
	got := false
	select {
	case <-s.RoomWanted():
		got = true
	default:
	}
	if got != want {
		s.t.Errorf("a purge is asked for: %v, want %v", got, want)
	}
}

// A start without kept.json under pressure measures everything before it removes the first.
func TestRoomAfterStart(t *testing.T) {
	for range 5 { // IDs are random
		s := newShelf(t, 24*time.Hour)
		s.small(40 * mib)
		for i, name := range []string{"a", "b", "c"} {
			s.keepsOne(name, name, int64(i+3)*mib)
		}
		s.small(13 * mib) // 1 MiB of 13 is free
		s.open()
		purge(t, s.Pool)
		s.keeps("a", "b")
	}
}

// A retention that becomes shorter ends what is kept at the next start; a longer one keeps it.
func TestRetentionChanges(t *testing.T) {
	s := newShelf(t, 24*time.Hour)
	s.small(40 * mib)
	s.keepsOne("a", "team", 4*mib)
	s.runs(2 * time.Hour)
	s.keepsOne("b", "team", 4*mib)
	s.runs(10 * time.Minute)
	purge(t, s.Pool)
	s.small(9 * mib)
	s.c.TrashRetention = time.Hour
	s.open()
	purge(t, s.Pool)
	s.keeps("b")
	s.c.TrashRetention = 24 * time.Hour
	s.open()
	s.runs(20 * time.Hour)
	purge(t, s.Pool)
	s.keeps("b")
	s.c.TrashRetention = 0
	s.open()
	purge(t, s.Pool)
	s.keeps()
}

// Of calls for one kept volume at the same time one has it: a volume is in place with its data, or its
// removal was decided.
func TestKeptAtOnce(t *testing.T) {
	for i := range 40 {
		s := newShelf(t, time.Hour)
		id := s.deletes("v")[0]
		var all sync.WaitGroup
		errs := make([]error, 4)
		for n, do := range []func() error{
			func() error { _, err := s.Undelete(id); return err },
			func() error { _, err := s.Undelete(id); return err },
			func() error {
				if i%2 == 0 {
					return volume.ErrNotFound // two undeletes alone
				}
				return s.DropKept(id)
			},
			func() error { _, err := s.Purge(t.Context()); return err },
		} {
			all.Go(func() { errs[n] = do() })
		}
		all.Wait()
		ok(t, errs[3])
		won := 0
		for _, err := range errs[:3] {
			if err == nil {
				won++
			} else if !errors.Is(err, volume.ErrNotFound) && !errors.Is(err, volume.ErrConflict) {
				t.Error(err)
			}
		}
		v, err := s.Get("v")
		if won != 1 || (err == nil) != (errs[0] == nil || errs[1] == nil) || err == nil && !there(filepath.Join(v.Path, "data")) {
			t.Fatalf("%v; then %v", errs, err)
		}
		s.keeps()
		purge(t, s.Pool)
		consistent(t, s.Pool)
	}
}
