package volume_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A claim is recorded once, for the PV and the claim that the volume is bound to, and without waiting
// for the disk. It stays while the record is rewritten, and goes with the claim.
func TestRecordClaim(t *testing.T) {
	p := newPool(t)
	b := binding("a")
	give := func(pv string, owner record.Owner, c *record.Claim) (bool, error) {
		return p.RecordClaim("a", pv, owner, c)
	}
	_, err := give(b.PV, b.Owner, describedClaim())
	is(t, err, volume.ErrNotFound)
	create(t, p, "a")
	_, err = give(b.PV, b.Owner, describedClaim())
	is(t, err, volume.ErrConflict) // no PV was seen
	_, err = p.Bind("a", b)
	ok(t, err)
	_, err = give("another", b.Owner, describedClaim())
	is(t, err, volume.ErrConflict)
	_, err = give(b.PV, record.Owner{Namespace: b.Owner.Namespace, Name: b.Owner.Name, UID: "another"}, describedClaim())
	is(t, err, volume.ErrConflict)
	for _, want := range []bool{true, false} {
		if changed, err := give(b.PV, b.Owner, describedClaim()); changed != want || err != nil {
			t.Errorf("changed %v, want %v, %v", changed, want, err)
		}
	}
	if onDisk(t, p, "a").Claim != nil {
		t.Error("the call waited for the disk")
	}
	purge(t, p)
	for name, call := range map[string]func() error{
		"bind":        func() error { _, err := p.Bind("a", b); return err },
		"expand":      func() error { _, err := p.Expand("a", 2*gib); return err },
		"note orphan": func() error { _, err := p.NoteOrphan("a", "gone", 0); return err },
		"open again":  func() error { p = reopened(t, p); return p.Ready() },
	} {
		ok(t, call())
		if r := onDisk(t, p, "a"); !r.Claim.Equal(describedClaim()) {
			t.Errorf("%s: %+v", name, r.Claim)
		}
	}
	next := b
	next.Owner.UID = nextUID
	ok(t, p.Transfer("a", b.Owner.UID, next))
	if r := onDisk(t, p, "a"); r.Claim != nil {
		t.Errorf("the next claim has that of the former: %+v", r.Claim)
	}
	consistent(t, p)
}

// An older program drops the key when it rewrites a record, and a record of one has none. Both are
// filled again.
func TestClaimDroppedByOlderProgram(t *testing.T) {
	p := newPool(t)
	create(t, p, "a")
	b := binding("a")
	_, err := p.Bind("a", b)
	ok(t, err)
	fill := func() {
		t.Helper()
		if changed, err := p.RecordClaim("a", b.PV, b.Owner, describedClaim()); !changed || err != nil {
			t.Errorf("changed %v, %v", changed, err)
		}
		purge(t, p)
	}
	fill()
	ok(t, p.Close())
	path := filepath.Join(p.Path(), records, "a")
	data, err := os.ReadFile(path)
	ok(t, err)
	var keys map[string]json.RawMessage
	ok(t, json.Unmarshal(data, &keys))
	if string(bytes.TrimSpace(keys["version"])) != "1" || keys["claim"] == nil {
		t.Fatalf("an older program must read the record: %s", data)
	}
	delete(keys, "claim") // as its rewrite does
	data, err = json.Marshal(keys)
	ok(t, err)
	ok(t, os.WriteFile(path, data, 0o600))
	p = opened(t, volume.Config{Path: p.Path()})
	fill()
	if r := onDisk(t, p, "a"); !r.Claim.Equal(describedClaim()) {
		t.Errorf("%+v", r)
	}
}

// A journal fits beside the longest claim, and the record can be read again.
func TestJournalBesideClaim(t *testing.T) {
	p := newPool(t)
	create(t, p, "a")
	b := binding("a")
	_, err := p.Bind("a", b)
	ok(t, err)
	_, err = p.RecordClaim("a", b.PV, b.Owner, describedClaim())
	ok(t, err)
	ok(t, beginAs(p, "a", journal))
	_, err = p.RecordClaim("a", b.PV, b.Owner, &record.Claim{})
	is(t, err, volume.ErrMigrating)
	if r := onDisk(t, p, "a"); !r.Claim.Equal(describedClaim()) || r.Migration == nil {
		t.Errorf("%+v", r)
	}
}
