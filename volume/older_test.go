package volume_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// olderPool writes the recorded pool into an empty directory, and returns its path.
func olderPool(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/older-pool.txt")
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "pool")
	for _, entry := range strings.Split(string(data), "\n-- ")[1:] {
		name, content, _ := strings.Cut(entry, " --")
		path := filepath.Join(base, name)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = os.WriteFile(path, []byte(strings.TrimSpace(content)+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// A pool of an older version is served as its own: everything that was in place is, with its owner
// and its journal, what was begun is finished or rolled back, and what was deleted is removed.
func TestOlderPool(t *testing.T) {
	base := olderPool(t)
	p := opened(t, volume.Config{Path: base, Holder: "test"})
	want := map[string]record.State{
		"csi-inline": record.Ready, "pvc-adopted": record.Bound, "pvc-bound": record.Bound, "pvc-grown": record.Bound, "pvc-kept": record.Bound,
		"pvc-migrated": record.Bound, "pvc-migrating": record.Bound, "pvc-ready": record.Ready, "pvc-unlimited": record.Bound,
	}
	wantOlder(t, p, want)
	for name, has := range map[string]func(volume.Volume) bool{
		"csi-inline":  func(v volume.Volume) bool { return v.Ephemeral },
		"pvc-adopted": func(v volume.Volume) bool { return v.Adopted },
		"pvc-grown":   func(v volume.Volume) bool { return v.Bytes == 8*mib },
		"pvc-kept": func(v volume.Volume) bool {
			return v.Orphan.Why == "PV pvc-kept is gone" && v.ReclaimPolicy == "Retain"
		},
		"pvc-migrated": func(v volume.Volume) bool { return v.Migration.Step == record.MigrationDone },
		"pvc-migrating": func(v volume.Volume) bool {
			return v.Migration.Step == record.MigrationCutover && len(v.Migration.New) > 0
		},
		"pvc-unlimited": func(v volume.Volume) bool { return v.Quota == record.QuotaNone },
	} {
		if v, err := p.Get(name); err != nil || !has(v) {
			t.Errorf("%s: %+v, %v", name, v.Record, err)
		}
	}
	if open, err := p.Migrations(); err != nil || len(open) != 1 {
		t.Errorf("migrations to continue: %d, %v; want that of pvc-migrating", len(open), err)
	}

	if v, err := p.Expand("pvc-bound", 16*mib); err != nil || v.Bytes != 16*mib {
		t.Errorf("expand: %d, %v", v.Bytes, err)
	}
	if err := p.Delete("pvc-grown"); err != nil {
		t.Error(err)
	}
	if more, err := p.Purge(t.Context()); more || err != nil {
		t.Errorf("purge: more %v, %v", more, err)
	}
	for _, r := range p.SetAside() { // an agent was killed before it had deleted it
		ok(t, p.Delete(r.Name))
	}
	purge(t, p)
	if left := names(t, filepath.Join(base, trash)); len(left) > 0 {
		t.Errorf("the trash has %q", left)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	delete(want, "pvc-grown")
	wantOlder(t, opened(t, volume.Config{Path: base, Holder: "test"}), want)
}

// wantOlder compares the volumes of a pool, their files, and what is in no volume.
func wantOlder(t *testing.T, p *volume.Pool, want map[string]record.State) {
	t.Helper()
	all, err := p.List()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]record.State{}
	for _, v := range all {
		got[v.Name] = v.State
		if data, err := os.ReadFile(filepath.Join(v.Path, "file")); string(data) != "data of "+v.Name+"\n" {
			t.Errorf("%s has the file %q, %v", v.Name, data, err)
		}
		if v.Owner.Namespace != "default" || v.Owner.UID == "" || v.Missing {
			t.Errorf("%s: %+v", v.Name, v)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("volumes %v, want %v", got, want)
	}
	if damaged := p.Damaged(); len(damaged) > 0 {
		t.Errorf("damaged: %q", damaged)
	}
	if left := names(t, filepath.Join(p.Path(), staging)); len(left) > 0 {
		t.Errorf("staging has %q", left)
	}
	if left, err := p.Unrecorded(); err != nil || len(left) > 0 {
		t.Errorf("unrecorded: %+v, %v", left, err)
	}
}
