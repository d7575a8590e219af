package pvs

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestUnfinished has one reason to keep the volume a row.
func TestUnfinished(t *testing.T) {
	c := newPVs(t)
	pool := c.pools.All()[0]
	pv := validPV(c, "now")
	v, err := pool.Create(volume.Spec{Name: pv.Name, Bytes: 1, PV: pv.Name, Owner: ownerOf(pv), Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	late := v.Created.Add(unfinishedAge)
	for what, row := range map[string]struct {
		now  time.Time
		edit func(*volume.Volume)
		want bool
	}{
		"abandoned": {late, func(*volume.Volume) {}, true},
		"new":       {late.Add(-time.Second), func(*volume.Volume) {}, false},
		"ephemeral": {late, func(v *volume.Volume) { v.Ephemeral = true }, false},
		"by hand":   {late, func(v *volume.Volume) { v.PV = "" }, false},
		"deleted":   {late, func(v *volume.Volume) { v.State = record.Deleting }, false},
	} {
		v := v
		row.edit(&v)
		if got := c.unfinished(v, row.now); got != row.want {
			t.Errorf("%s: unfinished: %v", what, got)
		}
	}

	// The API server has neither PV nor claim, but the volume is too young.
	c.rollBackIn(t.Context(), pool)
	if _, err := pool.Get(v.Name); err != nil {
		t.Errorf("a volume whose PV may still be saved: %v", err)
	}
	pv.UID = "saved"
	if err := c.informer.GetStore().Add(pv); err != nil {
		t.Fatal(err)
	}
	if c.unfinished(v, late) {
		t.Error("a volume whose PV is saved is unfinished")
	}
	pv.Spec.HostPath.Path += "-other"
	if !c.unfinished(v, late) {
		t.Error("a volume whose PV names another directory is finished")
	}
}
