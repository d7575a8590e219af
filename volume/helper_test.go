package volume_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

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
		Owner: record.Owner{Namespace: "default", Name: "data", UID: "uid-" + name}}
}

func binding(name string) volume.Binding {
	s := spec(name, 1)
	return volume.Binding{PV: s.PV, ReclaimPolicy: s.ReclaimPolicy, Owner: s.Owner, UID: "uid-" + s.PV, Cluster: s.Cluster, Bound: true}
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
	var e *fault.Error
	if !errors.As(err, &e) || e.Op == "" || e.Err == nil {
		t.Fatalf("error %#v is no complete *fault.Error", err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// consistent checks what holds of every pool between two calls: its
// directories are its records, the ledger is their sum, nothing is half done.
func consistent(t *testing.T, p *volume.Pool) {
	t.Helper()
	var dirs, records []string
	for _, name := range names(t, p.Path()) {
		if name != private {
			dirs = append(dirs, name)
		}
	}
	all, err := recorded(p)
	ok(t, err)
	for _, r := range all {
		records = append(records, r.Name)
	}
	if !slices.Equal(dirs, records) {
		t.Errorf("directories %v, records %v", dirs, records)
	}
	for _, f := range unsound(p) {
		t.Errorf("%s: %s", f.kind, f.text)
	}
}

// unsound returns what must not be in a pool between two calls, whatever
// volumes it has.
func unsound(p *volume.Pool) (faults []breach) {
	all, err := recorded(p)
	if err != nil {
		return []breach{{lost, err.Error()}}
	}
	var allocated int64
	for _, r := range all {
		v, err := p.Get(r.Name)
		late := r.State == record.Creating && (err == nil && (v.State == record.Ready || v.State == record.Bound) && !v.Missing ||
			errors.Is(err, volume.ErrSetAside)) // whatever its record says
		if r.State != record.Ready && r.State != record.Bound && !late {
			faults = append(faults, breach{leaked, fmt.Sprintf("record %s is %s", r.Name, r.State)})
		}
		allocated += r.Bytes
	}
	if s, err := p.Space(); err != nil || s.Allocated != allocated {
		faults = append(faults, breach{double, fmt.Sprintf("allocated %d, the records say %d, %v", s.Allocated, allocated, err)})
	}
	for _, left := range []string{staging + "/*", private + "/.*", records + "/.*"} {
		if found, _ := filepath.Glob(filepath.Join(p.Path(), left)); len(found) > 0 {
			faults = append(faults, breach{leaked, fmt.Sprintf("left over: %v", found)})
		}
	}
	for _, k := range p.Kept() {
		if at := filepath.Join(p.Path(), keptDir, k.ID); !there(at) || !there(at+record.Suffix) || k.Why != "" {
			faults = append(faults, breach{leaked, fmt.Sprintf("kept/%s is not whole: %s", k.ID, k.Why)})
		}
	}
	if found, _ := filepath.Glob(filepath.Join(p.Path(), keptDir, "*"+record.Suffix)); len(found) != len(p.Kept()) {
		faults = append(faults, breach{leaked, fmt.Sprintf("%d volumes are kept, and there are %q", len(p.Kept()), found)})
	}
	if w := p.Warnings(); len(w) > 0 {
		faults = append(faults, breach{leaked, fmt.Sprintf("warnings %q", w)})
	}
	return faults
}

// recorded reads every record from the disk.
func recorded(p *volume.Pool) (all []record.Record, err error) {
	entries, err := os.ReadDir(filepath.Join(p.Path(), records))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // a temporary file
		}
		data, err := os.ReadFile(filepath.Join(p.Path(), records, e.Name()))
		var r record.Record
		if err = errors.Join(err, json.Unmarshal(data, &r)); err != nil || r.Name != e.Name() {
			return nil, fmt.Errorf("record %s: %q, %w", e.Name(), data, err)
		}
		all = append(all, r)
	}
	return all, err
}

func onDisk(t *testing.T, p *volume.Pool, name string) (r record.Record) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Path(), records, name))
	ok(t, err)
	ok(t, json.Unmarshal(data, &r))
	return r
}

// record puts a record on disk as a crash might have left it.
func recordFile(t *testing.T, path string, r record.Record) {
	t.Helper()
	data, err := json.Marshal(r)
	ok(t, err)
	write(t, filepath.Join(path, records, r.Name), string(data))
}
