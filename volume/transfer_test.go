package volume_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestTransfer(t *testing.T) {
	p := newPool(t)
	to := binding("v")
	was := to.Owner.UID
	to.Owner = record.Owner{Namespace: "elsewhere", Name: "restored", UID: "uid-2"}
	to.Cluster, to.ReclaimPolicy = "cluster-2", "Retain"
	is(t, p.Transfer("v", was, to), volume.ErrNotFound)
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	_, err = p.NoteOrphan("v", "its PV is gone", 0)
	ok(t, err)
	for what, spoil := range map[string]func(*volume.Binding, *string){
		"no PV":    func(b *volume.Binding, _ *string) { b.PV = "" },
		"no claim": func(b *volume.Binding, _ *string) { b.Owner.UID = "" },
		"no first": func(_ *volume.Binding, was *string) { *was = "" },
	} {
		b, was := to, was
		spoil(&b, &was)
		t.Log(what)
		is(t, p.Transfer("v", was, b), volume.ErrInvalid)
	}
	third := to
	third.PV = "other"
	is(t, p.Transfer("v", was, third), volume.ErrConflict)
	is(t, p.Transfer("v", "uid-of-a-third", to), volume.ErrConflict)
	before := onDisk(t, p, "v")

	for range 2 { // the second time nothing is left to do
		ok(t, p.Transfer("v", was, to))
	}
	want := before
	want.Former = was
	want.Owner, want.Cluster, want.ReclaimPolicy, want.Orphan = to.Owner, "cluster-2", "Retain", record.Orphan{}
	if got := onDisk(t, p, "v"); got != want {
		t.Errorf("on disk %+v, want %+v", got, want)
	}
	if want.Had(to.Owner.UID) || !want.Had(was) || want.Had("") || want.Had("uid") {
		t.Errorf("earlier owners %q of %q", want.Former, want.Owner.UID)
	}
	is(t, p.Transfer("v", was, third), volume.ErrConflict)
	third.PV, third.Owner.UID = to.PV, "uid-3"
	is(t, p.Transfer("v", was, third), volume.ErrConflict) // the caller has not seen the second claim
	if changed, err := p.Bind("v", to); changed || err != nil {
		t.Errorf("bound again: %v, %v", changed, err)
	}
	consistent(t, p)
}

// Transfer refuses a volume that is being migrated or deleted.
func TestTransferWaits(t *testing.T) {
	p := newPool(t)
	to := binding("v")
	was := to.Owner.UID
	to.Owner.UID = "uid-2"
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	ok(t, begin(p))
	is(t, p.Transfer("v", was, to), volume.ErrMigrating)
	ok(t, cancel(p))
	ok(t, p.Delete("v"))
	is(t, p.Transfer("v", was, to), volume.ErrNotFound)
	s := spec("w", 1)
	s.Ephemeral = true
	_, err = p.Create(s)
	ok(t, err)
	b := binding("w")
	b.Owner.UID = "uid-2"
	is(t, p.Transfer("w", s.Owner.UID, b), volume.ErrConflict)
}
