package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

func none(string) {}

// A deferred record survives a write that fails, and any other is what the disk has.
func TestStoreAfterFailedWrite(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	var left []string
	s := NewStore(func(name string) { left = append(left, name) })
	v := Record{Name: "v", State: Ready, Bytes: 1, QuotaID: 7}
	if err := s.PutNew(fd, none, v); err != nil {
		t.Fatal(err)
	}
	if r, ok := s.ByPV(""); ok {
		t.Errorf("the volume of no PV is %+v", r)
	}
	bound := v
	bound.State, bound.PV = Bound, "pv"
	s.Defer(bound)
	if r, deferred := s.Deferred("v"); !deferred || r.State != Bound {
		t.Errorf("%+v, deferred %v", r, deferred)
	}
	if r, ok := s.ByPV("pv"); !ok || r.Name != "v" {
		t.Errorf("%+v, %v", r, ok)
	}
	grown := bound
	grown.Bytes = 2
	if err := s.Put(-1, none, grown); err == nil {
		t.Error("written into no directory")
	}
	if err := os.WriteFile(filepath.Join(dir, "w"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(fd, "w"); !errors.Is(err, fault.ErrDamaged) {
		t.Error(err)
	}
	s.reload(fd, "v")
	if r, ok := s.Get("v"); !ok || r.State != Bound || r.Bytes != 1 || s.WithQuotaID(7) != 1 {
		t.Errorf("%+v, %v", r, ok)
	}
	if err := s.Drop(fd, none, "v"); err != nil || s.Has("v") || s.WithQuotaID(7) != 0 || len(s.AllDeferred()) > 0 || !slices.Equal(left, []string{"v"}) {
		t.Errorf("%v; left %q", err, left)
	}
}

// Programs that wrote other keys are understood.
func TestParseIgnoresUnknownKeys(t *testing.T) {
	r, err := Parse("v", []byte(`{"version":1,"name":"v","state":"bound","bytes":1,"adopted":true,"pendingID":1073741824,"switching":true}`))
	if err != nil || r.State != Bound || !r.Adopted || r.QuotaID != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
