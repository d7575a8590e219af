package volume_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

const gib = int64(1) << 30

// private are the paths below a pool that its readers depend on.
const (
	private = ".hostpath-provisioner"
	records = private + "/records"
	staging = private + "/staging"
	trash   = private + "/trash"
)

// configured returns a pool that is not open yet. The test closes it.
func configured(t *testing.T, c volume.Config) *volume.Pool {
	t.Helper()
	p, err := volume.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func opened(t *testing.T, c volume.Config) *volume.Pool {
	t.Helper()
	p := configured(t, c)
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	return p
}

// newPool opens a pool in a directory of its own.
func newPool(t *testing.T) *volume.Pool {
	t.Helper()
	return opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Holder: "test"})
}

func spec(name string, bytes int64) volume.Spec {
	return volume.Spec{Name: name, Bytes: bytes, PV: "pv-" + name, Cluster: "cluster-1", ReclaimPolicy: "Delete",
		Owner: volume.Owner{Namespace: "default", Name: "data", UID: "uid-" + name}}
}

func binding(name string) volume.Binding {
	s := spec(name, 1)
	return volume.Binding{PV: s.PV, ReclaimPolicy: s.ReclaimPolicy, Owner: s.Owner, Cluster: s.Cluster}
}

func create(t *testing.T, p *volume.Pool, name string) volume.Volume {
	t.Helper()
	v, err := p.Create(spec(name, gib))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// is fails the test unless err is the sentinel and an *Error with a cause.
func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	var e *volume.Error
	if !errors.As(err, &e) || e.Op == "" || e.Err == nil {
		t.Fatalf("error %#v is no complete *volume.Error", err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// consistent checks what holds of every pool between two calls: its
// directories are its records, the ledger is their sum, nothing is half done.
func consistent(t *testing.T, p *volume.Pool) {
	t.Helper()
	var dirs, recorded []string
	var promised int64
	for _, name := range names(t, p.Path()) {
		if name != private {
			dirs = append(dirs, name)
		}
	}
	for _, name := range names(t, filepath.Join(p.Path(), records)) {
		r := onDisk(t, p, name)
		if r.State != volume.Ready && r.State != volume.Bound {
			t.Errorf("record %s is %s", name, r.State)
		}
		recorded = append(recorded, name)
		promised += r.Bytes
	}
	if !slices.Equal(dirs, recorded) {
		t.Errorf("directories %v, records %v", dirs, recorded)
	}
	s, err := p.Space()
	ok(t, err)
	if s.Promised != promised {
		t.Errorf("promised %d, the records say %d", s.Promised, promised)
	}
	if left := names(t, filepath.Join(p.Path(), staging)); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}
	for _, name := range names(t, filepath.Join(p.Path(), private)) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("temporary file %s", name)
		}
	}
	if w := p.Warnings(); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
}

func onDisk(t *testing.T, p *volume.Pool, name string) (r volume.Record) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Path(), records, name))
	ok(t, err)
	ok(t, json.Unmarshal(data, &r))
	return r
}

// record puts a record on disk as a crash might have left it.
func record(t *testing.T, path string, r volume.Record) {
	t.Helper()
	data, err := json.Marshal(r)
	ok(t, err)
	write(t, filepath.Join(path, records, r.Name), string(data))
}
