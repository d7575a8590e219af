package volume_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// fuzzPool is a pool at rest with one volume, and a directory beside it that
// no call may touch.
type fuzzPool struct{ dir, path string }

func newFuzzPool(t *testing.T) fuzzPool {
	t.Helper()
	dir := t.TempDir()
	f := fuzzPool{dir: dir, path: filepath.Join(dir, "pool")}
	write(t, filepath.Join(dir, "precious/file"), "precious")
	write(t, filepath.Join(f.path, "bystander/file"), "precious")
	write(t, filepath.Join(f.path, private, "pool.json"), `{"version":1,"id":"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"}`)
	for _, name := range []string{records, staging, trash} {
		mkdir(t, filepath.Join(f.path, name))
	}
	ok(t, os.Chmod(f.path, 0o700))
	recordFile(t, f.path, record.Record{Version: 1, Name: "bystander", State: record.Bound, Bytes: gib, PV: "pv-bystander"})
	return f
}

// untouched fails the test where anything is not as it was that no call named.
func (f fuzzPool) untouched(t *testing.T) {
	t.Helper()
	for _, path := range []string{filepath.Join(f.dir, "precious/file"), filepath.Join(f.path, "bystander/file")} {
		if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
	if got := names(t, f.dir); !slices.Equal(got, []string{"pool", "precious"}) {
		t.Errorf("beside the pool lie %q", got)
	}
}

// fileName reports whether the kernel takes the name for a file.
func fileName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}

// Whatever name comes with a call, nothing outside the volume of that name
// changes, and a name that is accepted is one directory of the pool.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"v", "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", "..", "../precious", "/etc", "a/b", ".hostpath-provisioner",
		"a\x00b", strings.Repeat("x", 256), "ü", "-", "v\n"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		valid := volume.CheckName(name) == nil
		if valid && (!fileName(name) || name[0] == '.' || filepath.Base(name) != name) {
			t.Fatalf("%q is taken for a name", name)
		}
		if name == "bystander" {
			return
		}
		at := newFuzzPool(t)
		p := opened(t, volume.Config{Path: at.path, Inner: []string{"inner"}})
		_, err := p.Create(volume.Spec{Name: name, Bytes: 1})
		if made := err == nil; made != (valid && name != "inner") {
			t.Fatalf("create %q: %v", name, err)
		}
		if err == nil && !there(filepath.Join(at.path, name)) {
			t.Errorf("%q was made, and is not there", name)
		}
		_, _ = p.Adopt(volume.Spec{Name: name})
		_, _ = p.Bind(name, volume.Binding{PV: name})
		_, _ = p.Expand(name, 2)
		_, _ = p.Get(name)
		_, _ = p.ByPV(name)
		_, _ = p.QuotaUsage(name)
		_ = p.Pin(name, func(volume.Pinned) error { return nil })
		_ = p.RollBack(name)
		_ = p.Delete(name)
		_, err = p.Purge(t.Context())
		ok(t, err)
		consistent(t, p)
		at.untouched(t)
	})
}

// Where the fuzzed record's directory may be when a start finds it.
const (
	placed = 1 << iota
	staged
	trashed
	emptied // as a create would leave it
)

// A start with any record in the pool opens it, loses nothing, finds the same
// the next time, and leaves what it cannot understand as it is.
func FuzzRecord(f *testing.F) {
	for _, r := range []record.Record{
		{State: record.Creating, Bytes: 1}, {State: record.Ready, Bytes: gib}, {State: record.Bound, Adopted: true},
		{State: record.Deleting, Bytes: 1, Trash: "t"}, {State: record.Deleting, Bytes: 1, Trash: "../../precious"},
		{State: record.Bound, Bytes: 1, Trash: "t"}, {State: record.Bound, Bytes: 1, Trash: "../../precious"}, {State: record.Ready, Bytes: 1, Trash: "t.json"},
		{State: record.Ready, Bytes: 1<<63 - 1, QuotaID: 1 << 31, Quota: record.QuotaRequired, Inodes: 1 << 63},
		{Version: 2, State: record.Ready, Bytes: 1}, {State: record.Bound, Bytes: -1},
	} {
		r.Name = "v"
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		for _, where := range []uint8{0, placed, staged | emptied, placed | trashed} {
			f.Add("v", data, where)
		}
	}
	f.Add("v", []byte(`{"name":"v","state":"bound","adopted":true,"bytes":1,"pendingID":1073741824,"switching":true}`), uint8(placed))
	f.Add("w", []byte(`{"name":"v","state":"ready","bytes":1}`), uint8(placed))
	f.Add("..v", []byte("{"), uint8(0))
	f.Fuzz(func(t *testing.T, name string, data []byte, where uint8) {
		if !fileName(name) || name == "bystander" || strings.HasPrefix(name, ".new-") {
			return // not a record's name, or taken
		}
		at := newFuzzPool(t)
		at.put(t, name, data, where)
		p := opened(t, volume.Config{Path: at.path})
		all, err := p.List()
		ok(t, err)
		if len(all) < 1 || len(all) > 2 {
			t.Errorf("volumes %+v", all)
		}
		if len(p.Damaged()) > 0 {
			if left, err := os.ReadFile(filepath.Join(at.path, records, name)); err != nil || string(left) != string(data) {
				t.Errorf("a record that nobody understands is now %q, %v", left, err)
			}
		}
		ok(t, p.Close())
		at.untouched(t)
		report, err := inspect.Read(at.path)
		if err != nil || report.Space.Allocated < 0 || report.Space.Available < 0 {
			t.Errorf("%+v, %v", report, err)
		}

		p = opened(t, volume.Config{Path: at.path})
		if again, err := p.List(); err != nil || !reflect.DeepEqual(again, all) {
			t.Errorf("the next start finds %+v, %v; found %+v before", again, err, all)
		}
		if s, err := p.Space(); err != nil || s.Allocated < 0 || s.Available < 0 || s.Used < 0 {
			t.Errorf("space %+v, %v", s, err)
		}
		kept := p.Damaged()
		_, _ = p.Expand(name, gib)
		_ = p.Delete(name)
		_, err = p.Purge(t.Context())
		ok(t, err)
		if !slices.Equal(p.Damaged(), kept) {
			t.Errorf("damaged %q, and %q before", p.Damaged(), kept)
		}
		at.untouched(t)
	})
}

// put leaves the record in the pool as a crash, or a person, might have.
func (f fuzzPool) put(t *testing.T, name string, data []byte, where uint8) {
	t.Helper()
	write(t, filepath.Join(f.path, records, name), string(data))
	var r record.Record
	_ = json.Unmarshal(data, &r)
	dirs := map[uint8]string{placed: name, staged: filepath.Join(staging, name)}
	if fileName(r.Trash) && !strings.HasSuffix(r.Trash, ".json") { // no entry
		dirs[trashed] = filepath.Join(trash, r.Trash)
	}
	for bit, dir := range dirs {
		if where&bit == 0 || dir == private {
			continue
		}
		mkdir(t, filepath.Join(f.path, dir))
		if where&emptied == 0 {
			write(t, filepath.Join(f.path, dir, "file"), "data")
		}
	}
}

// A start with any record beside a kept volume keeps the volume's data, whatever the record says, and
// changes nothing else. What is offered comes back whole.
func FuzzKeptRecord(f *testing.F) {
	for _, r := range []record.Record{
		{Name: "v", State: record.Bound, Bytes: 1, Trash: "OLD"}, {Name: "v", State: record.Creating, Bytes: 1, Trash: "OLD"},
		{Name: "bystander", State: record.Bound, Bytes: gib, Trash: "OLD"}, {Name: "../../precious", State: record.Bound, Bytes: 1, Trash: "OLD"},
		{Name: "v", State: record.Bound, Bytes: 1, Trash: "../OLD"}, {Name: "v", State: record.Bound, Bytes: 1, Trash: "OLD", Returning: "../../bystander"},
		{Version: 2, Name: "v", State: record.Bound, Bytes: 1, Trash: "OLD"}, {Name: "v", State: record.Bound, Adopted: true, Trash: "OLD", TrashRetention: -1 << 63},
		{Name: "v", State: record.Bound, Bytes: 1<<63 - 1, Trash: "OLD", TrashRetention: 1<<63 - 1},
	} {
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(`{"OLD": {"seconds": 9223372036854775807, "bytes": 9223372036854775807}}`))
		f.Add(data, []byte(`{"OLD": {"seconds": -1, "bytes": -1}}`))
	}
	f.Add([]byte{}, []byte(`[]`))
	f.Add([]byte(`{`), []byte(`{`))
	f.Fuzz(func(t *testing.T, data, saved []byte) {
		at := newFuzzPool(t)
		entry := filepath.Join(at.path, keptDir, "OLD")
		write(t, filepath.Join(entry, "data"), "kept")
		write(t, entry+record.Suffix, string(data))
		write(t, filepath.Join(at.path, private, "kept.json"), string(saved))
		p := opened(t, volume.Config{Path: at.path, TrashRetention: 1<<63 - 1, TrashRetentionMax: 1<<63 - 1, Figures: roomy})
		if _, err := inspect.Read(at.path); err != nil {
			t.Error(err)
		}
		_, err := p.Space()
		ok(t, err)
		for _, k := range p.Kept() {
			v, err := p.Undelete(k.ID)
			if err != nil {
				continue
			}
			entry = v.Path
			if k.Why != "" {
				t.Errorf("brought back although %s", k.Why)
			}
		}
		if got, err := os.ReadFile(filepath.Join(entry, "data")); string(got) != "kept" {
			t.Errorf("%q, %v", got, err)
		}
		at.untouched(t)
	})
}
