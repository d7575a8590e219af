package pvs

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume is undone only if nothing speaks for it. Each row has one thing that does.
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
		"abandoned":   {late, func(*volume.Volume) {}, true},
		"new":         {late.Add(-time.Second), func(*volume.Volume) {}, false},
		"a pod's own": {late, func(v *volume.Volume) { v.Ephemeral = true }, false},
		"by hand":     {late, func(v *volume.Volume) { v.PV = "" }, false},
		"deleted":     {late, func(v *volume.Volume) { v.State = volume.Deleting }, false},
	} {
		v := v
		row.edit(&v)
		if got := c.unfinished(v, row.now); got != row.want {
			t.Errorf("%s: unfinished: %v", what, got)
		}
	}

	// The API server has neither PV nor claim, and still it is too early.
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
}
