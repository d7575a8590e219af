package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// TestSharedOnDisk has what files share known to the next process, without volumes that are gone. A
// damaged file is reported, and keeps nothing from the pool.
func TestSharedOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	at := filepath.Join(path, pooldir.PrivateName, sharedName)
	start := func() *Pool {
		t.Helper()
		p, err := New(Config{Path: path})
		if err == nil {
			err = p.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	p := start()
	v, err := p.Create(Spec{Name: "v", Bytes: 1 << 20, Quota: record.QuotaNone})
	if err != nil {
		t.Fatal(err)
	}
	created := v.Created
	write := func(p *Pool, all map[string]space.Shared) {
		t.Helper()
		p.ledger.SetShared(all)
		if err := p.withPool("test", "", func(c *call) error { return p.writeShared(c) }); err != nil {
			t.Fatal(err)
		}
	}
	write(p, nil)
	if _, err := os.Stat(at); err == nil {
		t.Error("a file without anything to keep")
	}
	write(p, map[string]space.Shared{"v": {Bytes: 7, Created: created}, "gone": {Bytes: 8, Created: created}})
	before, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	write(p, map[string]space.Shared{"v": {Bytes: 7, Created: created}})
	if after, err := os.Stat(at); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again without a change: %v", err)
	}
	p.Close()
	p = start()
	if all := p.ledger.Shared(); len(all) != 1 || all["v"].Bytes != 7 {
		t.Errorf("after a restart: %v", all)
	}
	p.Close()
	if err := os.WriteFile(at, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = start()
	if notes := strings.Join(p.Warnings(), "; "); !strings.Contains(notes, sharedName) || len(p.ledger.Shared()) > 0 {
		t.Errorf("damaged: %q, %v", notes, p.ledger.Shared())
	}
	write(p, map[string]space.Shared{"v": {Bytes: 9, Created: created}})
	p.Close()
	if p = start(); len(p.Warnings()) > 0 || p.ledger.Shared()["v"].Bytes != 9 {
		t.Errorf("written again: %q, %v", p.Warnings(), p.ledger.Shared())
	}
}
