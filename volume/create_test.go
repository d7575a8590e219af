package volume_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestCreate(t *testing.T) {
	p := newPool(t)
	v := create(t, p, "v")
	if v.Path != filepath.Join(p.Path(), "v") || v.State != record.Ready || v.Missing || v.Created.IsZero() {
		t.Errorf("created %+v", v)
	}
	again, err := p.Create(spec("v", gib))
	if err != nil || again.Record != v.Record {
		t.Errorf("again: %+v, %v, want %+v", again, err, v)
	}
	made := v.Record
	made.State = record.Creating // what is in place is ready
	if r := onDisk(t, p, "v"); r != made {
		t.Errorf("on disk %+v, want %+v", r, made)
	}
	purge(t, p)
	if r := onDisk(t, p, "v"); r != v.Record {
		t.Errorf("on disk after a purge %+v, want %+v", r, v.Record)
	}
	data, err := os.ReadFile(filepath.Join(p.Path(), records, "v"))
	ok(t, err)
	if !strings.HasPrefix(string(data), "{\n  \"version\": 1,\n  \"name\": \"v\",\n") || !strings.HasSuffix(string(data), "}\n") {
		t.Errorf("record reads\n%s", data)
	}
	for _, spoil := range []func(*volume.Spec){
		func(s *volume.Spec) { s.Bytes++ },
		func(s *volume.Spec) { s.Owner.UID = "other" },
		func(s *volume.Spec) { s.PV = "other" },
	} {
		s := spec("v", gib)
		spoil(&s)
		_, err := p.Create(s)
		is(t, err, volume.ErrConflict)
	}
	consistent(t, p)
}

func TestCreateConflictNamesBoth(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	s := spec("v", 2*gib)
	s.Owner = record.Owner{Namespace: "prod", Name: "db", UID: "u2"}
	_, err := p.Create(s)
	want := `create volume "v": conflict: exists with 1073741824 bytes for claim default/data (uid-v), ` +
		`requested with 2147483648 bytes for claim prod/db (u2)`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestCreateRefusals(t *testing.T) {
	p := newPool(t)
	for _, bytes := range []int64{0, -1} {
		_, err := p.Create(spec("v", bytes))
		is(t, err, volume.ErrInvalid)
	}
	mkdir(t, filepath.Join(p.Path(), "dir"))
	write(t, filepath.Join(p.Path(), "file"), "x")
	ok(t, os.Symlink("/", filepath.Join(p.Path(), "link")))
	for _, name := range []string{"dir", "file", "link"} {
		_, err := p.Create(spec(name, gib))
		is(t, err, volume.ErrConflict)
		is(t, p.Delete(name), volume.ErrConflict)
		is(t, p.RollBack(name), volume.ErrConflict)
	}
	if got := names(t, filepath.Join(p.Path(), records)); len(got) > 0 {
		t.Errorf("records %v", got)
	}
}

func TestCreateMode(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for mode, want := range map[record.Mode]fs.FileMode{
		0: 0o777, 0o750: 0o750, 0o2770: 0o770 | fs.ModeSetgid, 0o1777: 0o777 | fs.ModeSticky,
	} {
		p := opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Mode: mode})
		st, err := os.Stat(create(t, p, "v").Path)
		ok(t, err)
		if got := st.Mode() &^ fs.ModeDir; got != want {
			t.Errorf("mode %v gives %v", mode, got)
		}
		for path, want := range map[string]fs.FileMode{"": 0o700, private: 0o700, records: 0o700,
			private + "/pool.json": 0o600, private + "/lock": 0o600, records + "/v": 0o600} {
			if st, err := os.Stat(filepath.Join(p.Path(), path)); err != nil || st.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", path, st.Mode(), err)
			}
		}
	}
}

func TestCreateMissing(t *testing.T) {
	p := newPool(t)
	ok(t, os.Remove(create(t, p, "v").Path))
	v, err := p.Get("v")
	if err != nil || !v.Missing {
		t.Fatalf("got %+v, %v", v, err)
	}
	v = create(t, p, "v") // no PV names it
	if !there(v.Path) || v.Missing {
		t.Error("it was not made again")
	}
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	ok(t, os.Remove(v.Path))
	_, err = p.Create(spec("v", gib))
	if is(t, err, volume.ErrConflict); !strings.Contains(err.Error(), "missing") || there(v.Path) {
		t.Error(err)
	}
	ok(t, p.Delete("v"))
	consistent(t, p)
	purge(t, p)
}

// A step that fails, rather than a process that dies, leaves nothing behind.
func TestCreateFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	var at func(step string)
	p := opened(t, volume.Config{Path: path, Step: func(step string) {
		if at != nil {
			at(step)
		}
	}})
	for step, spoil := range map[string]func(){
		"create.rename": func() { mkdir(t, filepath.Join(path, "v")) },
		"create.mkdir":  func() { mkdir(t, filepath.Join(path, staging, "v", "x")) },
		"record.new":    func() { mkdir(t, filepath.Join(path, records, "v", "x")) },
	} {
		at = func(s string) {
			if s == step {
				spoil()
				at = nil
			}
		}
		if _, err := p.Create(spec("v", gib)); err == nil {
			t.Errorf("%s: no error", step)
		}
		at = nil
		if step == "create.rename" && !there(filepath.Join(path, "v")) {
			t.Error("somebody's directory was removed")
		}
		ok(t, os.RemoveAll(filepath.Join(path, "v")))
		ok(t, os.RemoveAll(filepath.Join(path, records, "v")))
		ok(t, os.RemoveAll(filepath.Join(path, staging, "v")))
		consistent(t, p)
	}
	mkdir(t, filepath.Join(path, staging, "v")) // a call could not take it back
	create(t, p, "v")
	consistent(t, p)
}
