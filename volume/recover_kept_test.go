package volume_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Every row of the table about kept volumes in docs/on-disk-format.md: what is on disk, also of a former
// or an older process, and what a start and a purge make of it. The volume is "v", kept as "OLD", and its
// record in records/ has the name "NEW" in the trash.
func TestRecoverKept(t *testing.T) {
	created := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	base := record.Record{Version: 1, Name: "v", Bytes: gib, PV: "pv-v", State: record.Bound, Created: created,
		Owner: record.Owner{Namespace: "default", Name: "data", UID: "uid-v"}}
	type put = func(*testing.T, string)
	change := func(r record.Record, do func(*record.Record)) record.Record { do(&r); return r }
	now := change(base, func(r *record.Record) { r.Trash = "NEW" })
	returning := change(now, func(r *record.Record) { r.Returning = "OLD" })
	other := change(now, func(r *record.Record) { r.Created = created.Add(time.Second) })
	rec := func(r record.Record) put { return func(t *testing.T, path string) { recordFile(t, path, r) } }
	file := func(name, content string) put {
		return func(t *testing.T, path string) { write(t, filepath.Join(path, name), content) }
	}
	old := func(t *testing.T, path string) {
		data, err := json.Marshal(change(base, func(r *record.Record) { r.Trash = "OLD" }))
		ok(t, err)
		write(t, filepath.Join(path, keptDir, "OLD.json"), string(data))
	}
	entry, inPlace := file(keptDir+"/OLD/data", "v"), file("v/data", "v")
	aside := func(state record.State) put {
		return rec(change(base, func(r *record.Record) { r.Trash, r.State = "OLD", state }))
	}
	for _, row := range []struct {
		name    string
		found   []put
		in      bool     // v is in place afterwards, with its data
		kept    []string // IDs that can be brought back
		doubt   []string // IDs that are left alone, and noted
		trash   []string
		aside   bool // v comes back, or is deleted
		damaged bool
		left    []string // in kept/, besides the above
		data    string   // of v, if it is not that of the kept volume
	}{
		{name: "kept", found: []put{entry, old}, kept: []string{"OLD"}},
		{name: "kept, and another volume of its name", found: []put{entry, old, rec(other), file("v/data", "other")}, in: true, data: "other",
			kept: []string{"OLD"}},
		{name: "D1 bound, kept", found: []put{aside(record.Bound), entry}, aside: true},
		{name: "D1 creating, kept", found: []put{aside(record.Creating), entry}, aside: true},
		{name: "D2 record in both places", found: []put{aside(record.Bound), func(t *testing.T, path string) {
			mkdir(t, filepath.Join(path, keptDir))
			ok(t, os.Link(filepath.Join(path, records, "v"), filepath.Join(path, keptDir, "OLD.json")))
		}, entry}, kept: []string{"OLD"}},
		{name: "D2 the record alone", found: []put{old}, trash: []string{"OLD.json"}},
		{name: "K1 the directory in the trash", found: []put{old, file(trash+"/OLD/data", "v")}, trash: []string{"OLD", "OLD.json"}},
		{name: "K1 both in the trash", found: []put{file(trash+"/OLD/data", "v"), file(trash+"/OLD.json", "{}")}, trash: []string{"OLD", "OLD.json"}},
		{name: "K1 record in both places", found: []put{old, func(t *testing.T, path string) {
			ok(t, os.Link(filepath.Join(path, keptDir, "OLD.json"), filepath.Join(path, trash, "OLD.json")))
		}, file(trash+"/OLD/data", "v")}, trash: []string{"OLD", "OLD.json"}},
		{name: "half purged before anything was kept", found: []put{file(trash+"/OLD/data", "v"), file(trash+"/OLD.json", "{}"),
			func(t *testing.T, path string) { mkdir(t, filepath.Join(path, keptDir)) }}, trash: []string{"OLD", "OLD.json"}},
		{name: "K2", found: []put{entry, old, rec(returning)}, in: true},
		{name: "R2", found: []put{inPlace, old, rec(returning)}, in: true},
		{name: "R2, and another directory in place", found: []put{entry, old, rec(returning), file("v/data", "other")}, aside: true},
		{name: "R3", found: []put{inPlace, old, rec(now)}, in: true},
		{name: "K3", found: []put{inPlace, rec(now)}, in: true},
		{name: "an older version removed the note before R2", found: []put{entry, old, rec(now)}, in: true},
		{name: "an older version removed the note before R2, and a directory was restored", found: []put{entry, old, rec(now), file("v/data", "other")},
			in: true, data: "other", doubt: []string{"OLD"}},
		{name: "an older version ended a deletion", found: []put{entry}, trash: []string{"OLD"}},
		{name: "an older version ended a deletion, whose record is still there", found: []put{entry, file(trash+"/OLD.json", "{}")},
			trash: []string{"OLD", "OLD.json"}},
		{name: "an older version brought the volume back and deleted it", found: []put{old, file(trash+"/NEW/data", "v"), file(trash+"/NEW.json", "{}")},
			trash: []string{"NEW", "NEW.json", "OLD.json"}},
		{name: "a record that cannot be read", found: []put{entry, file(keptDir+"/OLD.json", "{")}, doubt: []string{"OLD"}},
		{name: "a record of a later version", found: []put{entry, file(keptDir+"/OLD.json", `{"version": 2, "name": "v"}`)}, doubt: []string{"OLD"}},
		{name: "another entry's record", found: []put{file(keptDir+"/OTHER/data", "v"), old, func(t *testing.T, path string) {
			ok(t, os.Rename(filepath.Join(path, keptDir, "OLD.json"), filepath.Join(path, keptDir, "OTHER.json")))
		}}, doubt: []string{"OTHER"}},
		{name: "the volume's record cannot be read", found: []put{entry, old, file(records+"/v", "{")}, doubt: []string{"OLD"}, damaged: true},
		{name: "a record alone, and the volume's record cannot be read", found: []put{old, inPlace, file(records+"/v", "{")}, left: []string{"OLD.json"},
			damaged: true},
		{name: "an entry alone, and a record that cannot be read", found: []put{entry, file(records+"/w", "{")}, doubt: []string{"OLD"}, damaged: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := founded(t)
			for _, put := range row.found {
				put(t, path)
			}
			c := volume.Config{Path: path, TrashRetention: 24 * time.Hour, Figures: roomy}
			p := opened(t, c)
			trashed := names(t, filepath.Join(path, trash))
			if !slices.Equal(trashed, row.trash) {
				t.Errorf("the trash has %q, want %q", trashed, row.trash)
			}
			for range 2 {
				purgeOther(t, p)
				var kept, doubt []string
				for _, k := range p.Kept() {
					if k.Why == "" {
						kept = append(kept, k.ID)
					} else {
						doubt = append(doubt, k.ID)
						is(t, p.DropKept(k.ID), volume.ErrConflict)
						_, err := p.Undelete(k.ID)
						is(t, err, volume.ErrConflict)
					}
				}
				if !slices.Equal(kept, row.kept) || !slices.Equal(doubt, row.doubt) {
					t.Errorf("kept are %q, and in doubt %q", kept, doubt)
				}
				for _, id := range append(kept, doubt...) {
					if data, err := os.ReadFile(filepath.Join(path, keptDir, id, "data")); string(data) != "v" {
						t.Errorf("kept is %q, %v", data, err)
					}
				}
				for _, name := range row.left {
					if !there(filepath.Join(path, keptDir, name)) {
						t.Errorf("%s is gone", name)
					}
				}
				checkOfKept(t, p, row.in, row.aside, row.damaged, row.data)
				ok(t, p.Close())
				p = opened(t, c)
			}
			if len(row.kept) > 0 && !row.in {
				_, err := p.Undelete(row.kept[0])
				ok(t, err)
				checkOfKept(t, p, true, false, false, "")
			}
			if row.aside {
				_ = os.RemoveAll(filepath.Join(path, "v")) // in its way
				ok(t, p.Restore("v"))
				ok(t, p.Recover())
				checkOfKept(t, p, true, false, false, "")
			}
			if (row.in || row.aside) && row.doubt == nil { // it is a volume like any other
				ok(t, p.Delete("v"))
				for _, k := range p.Kept() {
					ok(t, p.DropKept(k.ID))
				}
				purge(t, p)
			}
		})
	}
}

// checkOfKept checks volume v, and that no call is needed for it.
func checkOfKept(t *testing.T, p *volume.Pool, in, aside, damaged bool, data string) {
	t.Helper()
	v, err := p.Get("v")
	switch {
	case aside:
		is(t, err, volume.ErrSetAside)
	case damaged:
	case !in:
		is(t, err, volume.ErrNotFound)
	default:
		if ok(t, err); data == "" {
			data = "v"
		}
		if got, err := os.ReadFile(filepath.Join(v.Path, "data")); string(got) != data || v.Missing || onDisk(t, p, "v").Returning != "" {
			t.Errorf("v is %+v with %q, %v", v.Record, got, err)
		}
	}
}

// purgeOther empties the trash, unless what is there is in doubt.
func purgeOther(t *testing.T, p *volume.Pool) {
	t.Helper()
	if more, err := p.Purge(t.Context()); more || err != nil {
		t.Error(more, err)
	}
}
