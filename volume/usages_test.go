package volume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestUses(t *testing.T) {
	s := twoPools(t)
	p := s.Named("one")
	for _, name := range []string{"b", "a"} {
		if _, err := p.Create(Spec{Name: name, Bytes: 1 << 20, Quota: record.QuotaNone}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.Path(), "a", "file"), bytes.Repeat([]byte("x"), 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := p.Usages()
	if err != nil || len(all) != 2 || all[0].Volume.Name != "a" || all[0].Known || all[1].Known {
		t.Fatalf("before anybody looked: %+v, %v", all, err)
	}
	if err := p.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err = p.Usages(); err != nil || !all[0].Known || all[0].Exact || all[0].Bytes < 100<<10 || all[1].Bytes > 64<<10 {
		t.Errorf("walked: %+v, %v", all, err)
	}
	p.Close()
	if _, err := p.Usages(); err == nil {
		t.Error("a closed pool answers")
	}
}
