package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// cloneOf returns the request for a clone of the volume v, by reflink or by bytes.
func cloneOf(p *volume.Pool, s volume.Spec) volume.CloneSpec { return cloneFrom(p, "v", s) }

func cloneFrom(p *volume.Pool, from string, s volume.Spec) volume.CloneSpec {
	r, _ := p.Cached(from)
	source := record.SourceOf(p.ID(), r)
	s.Source = &source
	return volume.CloneSpec{Spec: s, CopyBytes: true}
}

// awaited calls Clone until no job is under way.
func awaited(p *volume.Pool, s volume.CloneSpec) (volume.Volume, error) {
	for {
		v, err := p.Clone(s)
		if !errors.Is(err, volume.ErrCloning) {
			return v, err
		}
		time.Sleep(time.Millisecond)
	}
}

// cloned makes a clone of the volume v, and waits for it.
func cloned(p *volume.Pool, s volume.Spec) (volume.Volume, error) {
	return awaited(p, cloneOf(p, s))
}

// sourceIn makes the volume v, with a file in it, bound to a claim.
func sourceIn(t *testing.T, p *volume.Pool) volume.Volume {
	t.Helper()
	v := create(t, p, "v")
	write(t, filepath.Join(v.Path, "a", "data"), "of v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	return v
}

func TestClone(t *testing.T) {
	p := newPool(t)
	v := sourceIn(t, p)
	ok(t, os.Chmod(v.Path, 0o750|os.ModeSetgid))
	s := cloneOf(p, spec("c", 2*gib))
	c, err := awaited(p, s)
	ok(t, err)
	data, err := os.ReadFile(filepath.Join(c.Path, "a", "data"))
	st, err2 := os.Stat(c.Path)
	if err != nil || err2 != nil || string(data) != "of v" || st.Mode().Perm() != 0o750 || st.Mode()&os.ModeSetgid == 0 {
		t.Errorf("the clone has %q, %v, mode %v, %v", data, err, st.Mode(), err2)
	}
	if c.State != record.Ready || c.Bytes != 2*gib || !c.Source.Equal(s.Source) {
		t.Errorf("%+v", c.Record)
	}
	if again, err := p.Clone(s); err != nil || !again.Created.Equal(c.Created) || again.Trash != c.Trash {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, ok := p.CloneJob("c"); ok || len(p.CloneJobs()) > 0 {
		t.Error("a job is left")
	}
	purge(t, p)
	consistent(t, p)
	// Nothing but the records and the two directories depends on the source from here on.
	ok(t, p.Delete("v"))
	if _, err := p.Clone(s); err != nil {
		t.Errorf("the source is gone, and the clone is there: %v", err)
	}
	other := s
	changed := *s.Source
	changed.UID = "uid-other"
	other.Source = &changed
	_, err = p.Clone(other)
	is(t, err, volume.ErrConflict)
	_, err = p.Create(spec("c", 2*gib))
	is(t, err, volume.ErrConflict)
	ok(t, p.RollBack("c"))
	if there(c.Path) {
		t.Error("the clone was not rolled back")
	}
	purge(t, p)
	consistent(t, p)
}

// Every source that cannot be copied is refused, with words, and nothing is left.
func TestCloneRefusals(t *testing.T) {
	for _, row := range []struct {
		name    string
		prepare func(t *testing.T, p *volume.Pool)
		spoil   func(s *volume.CloneSpec)
		want    []error
	}{
		{"no such volume", nil, func(s *volume.CloneSpec) { s.Source.Volume = "none" }, []error{volume.ErrSource, volume.ErrNotFound}},
		{"another one of its name", nil, func(s *volume.CloneSpec) { s.Source.Trash = "OTHER" }, []error{volume.ErrSource, volume.ErrConflict}},
		{"made at another time", nil, func(s *volume.CloneSpec) { s.Source.Created = s.Source.Created.Add(time.Second) },
			[]error{volume.ErrSource, volume.ErrConflict}},
		{"another claim's", nil, func(s *volume.CloneSpec) { s.Source.UID = "uid-next" }, []error{volume.ErrSource, volume.ErrConflict}},
		{"of another namespace", nil, func(s *volume.CloneSpec) { s.Source.Namespace = "other" }, []error{volume.ErrSource, volume.ErrConflict}},
		{"of another pool", nil, func(s *volume.CloneSpec) { s.Source.Pool = "uuid" }, []error{volume.ErrSource, volume.ErrConflict}},
		{"of another cluster", nil, func(s *volume.CloneSpec) { s.Cluster = "cluster-2" }, []error{volume.ErrSource, volume.ErrConflict}},
		{"given to the next claim", func(t *testing.T, p *volume.Pool) {
			b := binding("v")
			b.Owner.UID = "uid-next"
			ok(t, p.Transfer("v", "uid-v", b))
		}, nil, []error{volume.ErrSource, volume.ErrConflict}},
		{"deleted", func(t *testing.T, p *volume.Pool) { ok(t, p.Delete("v")) }, nil, []error{volume.ErrSource, volume.ErrNotFound}},
		{"made again", func(t *testing.T, p *volume.Pool) { ok(t, p.Delete("v")); sourceIn(t, p) }, nil,
			[]error{volume.ErrSource, volume.ErrConflict}},
		{"migrating", func(t *testing.T, p *volume.Pool) { ok(t, beginAs(p, "v", journal)) }, nil, []error{volume.ErrSource, volume.ErrMigrating}},
		{"missing", func(t *testing.T, p *volume.Pool) { ok(t, os.RemoveAll(filepath.Join(p.Path(), "v"))) }, nil,
			[]error{volume.ErrSource, volume.ErrNotFound}},
		{"smaller", nil, func(s *volume.CloneSpec) { s.Bytes = gib - 1 }, []error{volume.ErrInvalid}},
		{"itself", nil, func(s *volume.CloneSpec) { s.Name = "v" }, []error{volume.ErrInvalid}},
		{"no source", nil, func(s *volume.CloneSpec) { s.Source = nil }, []error{volume.ErrInvalid}},
		{"an unknown consistency", nil, func(s *volume.CloneSpec) { s.Consistency = "some" }, []error{volume.ErrInvalid}},
		{"too large", nil, func(s *volume.CloneSpec) { s.Bytes = 1 << 60 }, []error{volume.ErrNoSpace}},
		{"name taken", func(t *testing.T, p *volume.Pool) { create(t, p, "c") }, nil, []error{volume.ErrConflict}},
		{"name taken by a directory", func(t *testing.T, p *volume.Pool) { mkdir(t, filepath.Join(p.Path(), "c")) }, nil,
			[]error{volume.ErrConflict}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPool(t)
			sourceIn(t, p)
			s := cloneOf(p, spec("c", gib))
			if row.prepare != nil {
				row.prepare(t, p)
			}
			before := names(t, p.Path())
			if row.spoil != nil {
				row.spoil(&s)
			}
			_, err := awaited(p, s)
			for _, want := range row.want {
				is(t, err, want)
			}
			if errors.Is(err, volume.ErrSource) != (row.want[0] == volume.ErrSource) {
				t.Errorf("%v", err)
			}
			if now := names(t, p.Path()); len(now) != len(before) {
				t.Errorf("%q, before %q", now, before)
			}
			if left := names(t, filepath.Join(p.Path(), staging)); len(left) > 0 || len(p.CloneJobs()) > 0 {
				t.Errorf("left: %q, jobs %v", left, p.CloneJobs())
			}
		})
	}
}

// A source that cannot be used for other reasons than its own.
func TestCloneOfAnAdoptedVolume(t *testing.T) {
	p := newPool(t)
	write(t, filepath.Join(p.Path(), "v", "data"), "of v")
	s := spec("v", 0)
	_, err := p.Adopt(s)
	ok(t, err)
	_, err = cloned(p, spec("c", gib))
	is(t, err, volume.ErrSource)
	is(t, err, volume.ErrConflict)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	write(t, filepath.Join(p.Path(), "v", "more"), strings.Repeat("x", 2<<20))
	ok(t, p.Measure(t.Context()))
	_, err = cloned(p, spec("c", mib)) // it has no size, so what it uses counts
	is(t, err, volume.ErrInvalid)
	_, err = cloned(p, spec("c", gib))
	ok(t, err)
}

// held returns a pool whose jobs wait at a step until release is called.
func held(t *testing.T, at string) (p *volume.Pool, reached chan struct{}, release func()) {
	t.Helper()
	reached, gate := make(chan struct{}, 100), make(chan struct{})
	p = opened(t, volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), Step: func(step string) {
		if step == at {
			reached <- struct{}{}
			<-gate
		}
	}})
	released := false
	release = func() {
		if !released {
			close(gate)
		}
		released = true
	}
	t.Cleanup(release)
	return p, reached, release
}

// While a job reads a volume, nothing removes or moves it, and nothing but the job touches the clone.
func TestCloneUnderWay(t *testing.T) {
	p, reached, release := held(t, "clone.copy")
	sourceIn(t, p)
	done := make(chan error, 1)
	go func() { _, err := awaited(p, cloneOf(p, spec("c", gib))); done <- err }()
	<-reached
	is(t, p.Delete("v"), volume.ErrInUse)
	is(t, beginAs(p, "v", journal), volume.ErrInUse)
	_, err := p.Create(spec("c", gib))
	is(t, err, volume.ErrCloning)
	_, err = p.Adopt(spec("c", gib))
	is(t, err, volume.ErrCloning)
	_, err = p.Get("c")
	is(t, err, volume.ErrNotFound)
	ok(t, p.Recover())
	if left := names(t, filepath.Join(p.Path(), staging)); len(left) != 1 {
		t.Errorf("staging has %q", left)
	}
	other := cloneOf(p, spec("c", gib))
	other.Bytes++
	_, err = p.Clone(other)
	is(t, err, volume.ErrConflict)
	if j, there := p.CloneJob("c"); !there || j.Spec.Name != "c" || j.Err != nil {
		t.Errorf("%+v, %v", j, there)
	}
	create(t, p, "w") // others work
	release()
	ok(t, <-done)
	ok(t, p.Delete("v"))
	purge(t, p)
	consistent(t, p)
}

// A caller whose claim is gone ends the job, and nothing is left of it.
func TestCloneEnded(t *testing.T) {
	for name, end := range map[string]func(p *volume.Pool) error{
		"EndClone": func(p *volume.Pool) error { p.EndClone("c"); return nil },
		"Delete":   func(p *volume.Pool) error { return p.Delete("c") },
		"RollBack": func(p *volume.Pool) error { return p.RollBack("c") },
		"a pod":    func(p *volume.Pool) error { return p.Pin("v", func(volume.Pinned) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			p, reached, release := held(t, "clone.entry")
			sourceIn(t, p)
			_, err := p.Clone(cloneOf(p, spec("c", gib)))
			is(t, err, volume.ErrCloning)
			<-reached
			j, _ := p.CloneJob("c")
			err = end(p)
			if err != nil {
				is(t, err, volume.ErrCloning)
			}
			release()
			<-j.Ended
			if j, ok := p.CloneJob("c"); ok && j.Err == nil || errors.Is(j.Err, volume.ErrYielded) != (name == "a pod") {
				t.Errorf("%+v", j)
			}
			purge(t, p)
			if left := names(t, filepath.Join(p.Path(), staging)); len(left) > 0 || there(filepath.Join(p.Path(), "c")) {
				t.Errorf("left: %q", left)
			}
			consistent(t, p)
		})
	}
}

// The next claim's data is not given away: the record of the source is compared at the end, too.
func TestCloneOfAVolumeThatIsGivenAway(t *testing.T) {
	p, reached, release := held(t, "clone.sync")
	sourceIn(t, p)
	done := make(chan error, 1)
	go func() { _, err := awaited(p, cloneOf(p, spec("c", gib))); done <- err }()
	<-reached
	b := binding("v")
	b.Owner.UID = "uid-next"
	ok(t, p.Transfer("v", "uid-v", b))
	release()
	err := <-done
	is(t, err, volume.ErrSource)
	is(t, err, volume.ErrConflict)
	purge(t, p)
	consistent(t, p)
}

// Close ends jobs, and the next start removes what they made.
func TestCloneAndClose(t *testing.T) {
	p, reached, release := held(t, "clone.entry")
	sourceIn(t, p)
	_, err := p.Clone(cloneOf(p, spec("c", gib)))
	is(t, err, volume.ErrCloning)
	<-reached
	j, _ := p.CloneJob("c")
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	time.Sleep(100 * time.Millisecond)
	release()
	<-j.Ended
	ok(t, <-closed)
	p = opened(t, volume.Config{Name: "pool", Path: p.Path()})
	purge(t, p)
	consistent(t, p)
	if there(filepath.Join(p.Path(), "c")) {
		t.Error("a part of the copy is in place")
	}
}

// A job that copies for longer than a disk may be silent keeps nobody from the pool.
func TestCloneIsNoHang(t *testing.T) {
	const patience = time.Second // of which a busy machine needs some for the other calls
	reached, gate := make(chan struct{}), make(chan struct{})
	p := opened(t, volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), Patience: patience,
		Step: func(step string) {
			if step == "clone.copy" {
				close(reached)
				<-gate
			}
		}})
	sourceIn(t, p)
	done := make(chan error, 1)
	go func() { _, err := awaited(p, cloneOf(p, spec("c", gib))); done <- err }()
	<-reached
	time.Sleep(patience + patience/2)
	ok(t, p.Ready())
	create(t, p, "w")
	close(gate)
	ok(t, <-done)
}

// An older program has removed the record of a copy, and left what it cannot remove.
func TestCloneThatAnOlderProgramLeft(t *testing.T) {
	p := newPool(t)
	left := filepath.Join(p.Path(), staging, ".clone-ABCDEFGH")
	write(t, filepath.Join(left, "data"), "a part")
	mkdir(t, filepath.Join(p.Path(), staging, ".clone-EMPTY"))
	foreign := filepath.Join(p.Path(), staging, "foreign")
	write(t, filepath.Join(foreign, "data"), "not of the agent")
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	purge(t, p)
	if got := names(t, filepath.Join(p.Path(), staging)); len(got) != 1 || got[0] != "foreign" {
		t.Errorf("staging has %q", got)
	}
	if got := names(t, filepath.Join(p.Path(), trash)); len(got) > 0 {
		t.Errorf("the trash has %q", got)
	}
}

// A pool that cannot share blocks copies no bytes unless that was permitted.
func TestCloneOfBytes(t *testing.T) {
	p := newPool(t)
	sourceIn(t, p)
	s := cloneOf(p, spec("c", gib))
	s.CopyBytes = false
	if _, err := awaited(p, s); err != nil { // TestDiskClone has filesystems with reflinks
		is(t, err, volume.ErrUnshared)
		is(t, err, volume.ErrSource)
	}
}

// The disk hangs at a step, and the caller, or the job, gives up. The volume is there or is not, with all
// that its source has, and nothing is left that keeps the names.
func TestCloneOnADiskThatHangs(t *testing.T) {
	for _, at := range []string{"clone.probe", "clone.mkdir", "create.label", "clone.record", "record.flush", "clone.copy", "clone.sync",
		"clone.rename", "clone.flush"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			disk := &hanging{stopped: map[string]int{}}
			p := opened(t, volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), Patience: 300 * time.Millisecond, Step: disk.step})
			v := sourceIn(t, p)
			purge(t, p)
			disk.hang(at)
			_, err := p.Clone(cloneOf(p, spec("c", gib)))
			if err == nil && at != "create.label" && at != "clone.probe" { // those may not happen here
				t.Fatalf("the disk hangs at %s: %v", at, err)
			}
			time.Sleep(400 * time.Millisecond)
			disk.thaw()
			for p.Ready() != nil {
				time.Sleep(time.Millisecond)
			}
			var c volume.Volume
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				if c, err = p.Clone(cloneOf(p, spec("c", gib))); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			ok(t, err)
			if !there(c.Path + "/a/data") {
				t.Error("the clone is not whole")
			}
			ok(t, p.Delete("v"))
			if there(v.Path) {
				t.Error("the source is there")
			}
			purge(t, p)
			consistent(t, p)
		})
	}
}
