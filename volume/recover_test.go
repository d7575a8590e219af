package volume_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Every row of docs/on-disk-format.md: what is on disk, and what a start makes
// of it. The volume is "v", its trash entry "GONE".
func TestRecoverTable(t *testing.T) {
	base := record.Record{Version: 1, Name: "v", Bytes: gib, PV: "pv-v", Owner: record.Owner{UID: "uid-v"}}
	in := func(s record.State) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			r := base
			r.State, r.Trash = s, "GONE"
			recordFile(t, path, r)
		}
	}
	old := func(t *testing.T, path string) {
		r := base
		r.State = record.Bound
		recordFile(t, path, r)
	}
	moving := func(step record.MigrationStep) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			r := base
			r.State, r.Migration = record.Bound, &record.Migration{Step: step, To: "csi", Old: []byte(`{}`)}
			recordFile(t, path, r)
		}
	}
	inline := func(t *testing.T, path string) {
		r := base
		r.State, r.Trash, r.Ephemeral = record.Ready, "GONE", true
		recordFile(t, path, r)
	}
	copied := func(s record.State) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			r := base
			r.State, r.Trash, r.Source = s, "GONE", &record.Source{Volume: "w"}
			recordFile(t, path, r)
		}
	}
	const part = staging + "/.clone-GONE/data"
	returning := func(t *testing.T, path string) {
		r := base
		r.State, r.Trash, r.Returning = record.Bound, "NEXT", "GONE"
		recordFile(t, path, r)
	}
	dir := func(name string) func(*testing.T, string) {
		return func(t *testing.T, path string) { mkdir(t, filepath.Join(path, name)) }
	}
	file := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, filepath.Join(path, name), content) }
	}
	linked := func(t *testing.T, path string) { // a power cut between the flushes of two directories, on btrfs
		ok(t, os.Link(filepath.Join(path, records, "v"), filepath.Join(path, trash, "GONE.json")))
	}
	type put = func(*testing.T, string)
	for _, row := range []struct {
		name  string
		found []put
		state record.State // of "v" afterwards; "" where there is no record
		dirs  []string     // in the pool
		trash []string
		warns int
		loose bool // leaves what consistent would complain about
		aside bool // the volume is in the trash, and comes back or goes
	}{
		{name: "C0 nothing"},
		{name: "C3 temporary record", found: []put{file(records+"/.new-ABC", "{"), dir(staging + "/v")}},
		{name: "temporary identity", found: []put{file(private+"/.new-ABC", "{")}},
		{name: "U2 creating, no directory", found: []put{in("creating")}},
		{name: "C4 creating, staged", found: []put{in("creating"), dir(staging + "/v")}},
		{name: "C4 creating, staged, and somebody's directory in place",
			found: []put{in("creating"), dir(staging + "/v"), dir("v")}, dirs: []string{"v"}, loose: true},
		{name: "C5 creating, in place", found: []put{in("creating"), dir("v")}, state: "ready", dirs: []string{"v"}},
		{name: "C6 ready", found: []put{in("ready"), dir("v")}, state: "ready", dirs: []string{"v"}},
		{name: "B1 bound", found: []put{in("bound"), dir("v")}, state: "bound", dirs: []string{"v"}},
		{name: "M1 prepared", found: []put{moving("prepared"), dir("v")}, state: "bound", dirs: []string{"v"}},
		{name: "M3 cutover", found: []put{moving("cutover"), dir("v")}, state: "bound", dirs: []string{"v"}},
		{name: "M10 done", found: []put{moving("done"), dir("v")}, state: "bound", dirs: []string{"v"}},
		{name: "bound, and another's entry in the trash", found: []put{in("bound"), dir("v"), dir(trash + "/OTHER")},
			state: "bound", dirs: []string{"v"}, trash: []string{"OTHER"}},
		{name: "bound before names in the trash were chosen", found: []put{old, dir("v"), dir(trash + "/OTHER")},
			state: "bound", dirs: []string{"v"}, trash: []string{"OTHER"}},
		{name: "D1 bound, in the trash", found: []put{in("bound"), file(trash+"/GONE/data", "x")}, trash: []string{"GONE"}, aside: true},
		{name: "D1 ready, in the trash", found: []put{in("ready"), dir(trash + "/GONE")}, trash: []string{"GONE"}, aside: true},
		{name: "D1 creating, in the trash", found: []put{in("creating"), dir(trash + "/GONE")}, trash: []string{"GONE"}, aside: true},
		{name: "D1 bound, in the trash, and somebody's directory in place",
			found: []put{in("bound"), dir(trash + "/GONE"), dir("v")}, dirs: []string{"v"}, trash: []string{"GONE"}, loose: true, aside: true},
		{name: "D1 ephemeral, in the trash", found: []put{inline, file(trash+"/GONE/data", "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "R1 returning, in the trash", found: []put{returning, file(trash+"/GONE/data", "x")}, state: "bound", dirs: []string{"v"}},
		{name: "R2 returning, in place", found: []put{returning, file("v/data", "x")}, state: "bound", dirs: []string{"v"}},
		{name: "R1 returning, and somebody's directory in place", found: []put{returning, file(trash+"/GONE/data", "x"), dir("v")},
			dirs: []string{"v"}, trash: []string{"GONE"}, warns: 1, loose: true, aside: true},
		{name: "deleting, in place", found: []put{in("deleting"), file("v/data", "x")},
			trash: []string{"GONE", "GONE.json"}},
		{name: "D1 deleting, in the trash", found: []put{in("deleting"), dir(trash + "/GONE")},
			trash: []string{"GONE", "GONE.json"}},
		{name: "deleting, nowhere", found: []put{in("deleting")}, trash: []string{"GONE.json"}},
		{name: "D2 trash entry with its record", found: []put{dir(trash + "/GONE"), file(trash+"/GONE.json", "{}")},
			trash: []string{"GONE", "GONE.json"}},
		{name: "D4 record alone", found: []put{file(trash+"/GONE.json", "{}")}, trash: []string{"GONE.json"}},
		{name: "D2 record in both places", found: []put{in("bound"), linked, file(trash+"/GONE/data", "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "D2 record in both places, and somebody's directory in place",
			found: []put{in("bound"), linked, dir(trash + "/GONE"), dir("v")}, dirs: []string{"v"}, trash: []string{"GONE", "GONE.json"}, loose: true},
		{name: "D4 record in both places", found: []put{in("bound"), linked}, trash: []string{"GONE.json"}},
		{name: "D4 record in both places, and somebody's directory in place",
			found: []put{in("bound"), linked, file("v/data", "x")}, dirs: []string{"v"}, trash: []string{"GONE.json"}, loose: true},
		{name: "D4 record in both places of a copied pool", found: []put{in("bound"), file(trash+"/GONE.json", "{}")}, trash: []string{"GONE.json"}},
		{name: "ready, missing", found: []put{in("ready")}, state: "ready", loose: true},
		{name: "bound, missing", found: []put{in("bound")}, state: "bound", loose: true},
		{name: "directory without a record", found: []put{dir("other")}, dirs: []string{"other"}, loose: true},
		{name: "C1 staging without a record", found: []put{dir(staging + "/x")}},
		{name: "staging with data", found: []put{file(staging+"/x/data", "x")}, warns: 1, loose: true},
		{name: "L1 a copy's directory without a record", found: []put{dir(staging + "/.clone-GONE")}},
		{name: "L4 a part of a copy", found: []put{copied("creating"), file(part, "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "L4 a part of a copy, and somebody's directory in place", found: []put{copied("creating"), file(part, "x"), file("v/data", "x")},
			dirs: []string{"v"}, trash: []string{"GONE", "GONE.json"}, loose: true},
		{name: "L6 a copy in place", found: []put{copied("creating"), file("v/data", "x")}, state: "ready", dirs: []string{"v"}},
		{name: "L7 a copy that is given up", found: []put{copied("deleting"), file(part, "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "L7 a copy that is given up, and somebody's directory in place", found: []put{copied("deleting"), file(part, "x"), file("v/data", "x")},
			dirs: []string{"v"}, trash: []string{"GONE", "GONE.json"}, loose: true},
		{name: "L8 a copy in the trash", found: []put{copied("deleting"), file(trash+"/GONE/data", "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "L8 a copy in the trash, and its record as it was", found: []put{copied("creating"), file(trash+"/GONE/data", "x")},
			trash: []string{"GONE", "GONE.json"}},
		{name: "L8 a copy in the trash, and somebody's directory in place", found: []put{copied("creating"), file(trash+"/GONE/data", "x"), file("v/data", "x")},
			dirs: []string{"v"}, trash: []string{"GONE", "GONE.json"}, loose: true},
		{name: "L9 record in both places", found: []put{copied("deleting"), linked, file(trash+"/GONE/data", "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "a copy nowhere", found: []put{copied("creating")}},
		{name: "a copy that is given up, nowhere", found: []put{copied("deleting")}, trash: []string{"GONE.json"}},
		{name: "a copy whose record an older program removed", found: []put{file(part, "x")}, trash: []string{"GONE"}},
		{name: "D1 a copy that no PV named", found: []put{copied("ready"), file(trash+"/GONE/data", "x")}, trash: []string{"GONE", "GONE.json"}},
		{name: "D1 a copy that a PV names", found: []put{copied("bound"), file(trash+"/GONE/data", "x")}, trash: []string{"GONE"}, aside: true},
		{name: "trash without a record", found: []put{file(trash+"/GONE/data", "x")}, trash: []string{"GONE"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := founded(t)
			for _, put := range row.found {
				put(t, path)
			}
			p := opened(t, volume.Config{Path: path})
			if row.aside {
				_, err := p.Get("v")
				is(t, err, volume.ErrSetAside)
			} else {
				wantRecord(t, p, row.state)
			}
			want := append([]string{private}, row.dirs...)
			if got := names(t, path); !slices.Equal(got, want) {
				t.Errorf("pool holds %v, want %v", got, want)
			}
			if got := names(t, filepath.Join(path, trash)); !slices.Equal(got, row.trash) {
				t.Errorf("trash holds %v, want %v", got, row.trash)
			}
			if got := p.Warnings(); len(got) != row.warns {
				t.Errorf("warnings %q", got)
			}
			if !row.loose && !row.aside {
				consistent(t, p)
			}
			if row.aside {
				keepsAside(t, p, row.trash)
			}
			purge(t, p)
		})
	}
}

func wantRecord(t *testing.T, p *volume.Pool, state record.State) {
	t.Helper()
	if there := there(filepath.Join(p.Path(), records, "v")); there != (state != "") {
		t.Fatalf("record is there: %v", there)
	}
	v, err := p.Get("v")
	if state == "" {
		is(t, err, volume.ErrNotFound)
		return
	}
	ok(t, err)
	if v.State != state || v.Bytes != gib || onDisk(t, p, "v").State != state {
		t.Errorf("volume is %+v, want %s", v, state)
	}
}

// keepsAside checks that nothing but a Delete finishes the deletion of v, and finishes it unless
// the volume returns.
func keepsAside(t *testing.T, p *volume.Pool, entries []string) {
	t.Helper()
	if s, err := p.Space(); err != nil || s.Allocated != gib {
		t.Errorf("allocated %d, %v", s.Allocated, err)
	}
	for range 2 {
		if more, err := p.Purge(t.Context()); more || err != nil {
			t.Errorf("purge: more %v, %v", more, err)
		}
		if got := names(t, filepath.Join(p.Path(), trash)); !slices.Equal(got, entries) {
			t.Errorf("after a purge the trash holds %v", got)
		}
		if err := p.Recover(); err != nil && !errors.Is(err, volume.ErrConflict) {
			t.Error(err)
		}
	}
	if there(filepath.Join(p.Path(), "v")) {
		is(t, p.Restore("v"), volume.ErrConflict)
	}
	if p.SetAside()[0].Returning != "" {
		ok(t, os.Remove(filepath.Join(p.Path(), "v")))
		ok(t, p.Restore("v"))
		wantRecord(t, p, record.Bound)
	}
	ok(t, p.Delete("v"))
}

// purge empties the trash.
func purge(t *testing.T, p *volume.Pool) {
	t.Helper()
	if more, err := p.Purge(t.Context()); more || err != nil {
		t.Fatal(more, err)
	}
	if left := names(t, filepath.Join(p.Path(), trash)); len(left) > len(p.SetAside()) {
		t.Errorf("trash still holds %v", left)
	}
}

// founded makes a pool and leaves it closed.
func founded(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pool")
	p := opened(t, volume.Config{Path: path})
	ok(t, p.Close())
	return path
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	ok(t, os.RemoveAll(to))
	if !there(from) {
		return
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
}
