package pvs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestUnfinished has one reason to keep the volume a row.
func TestUnfinished(t *testing.T) {
	c := newPVs(t)
	pool := c.Pools.All()[0]
	pv := validPV(c, "now")
	v, err := pool.Create(volume.Spec{Name: pv.Name, Bytes: 1, PV: pv.Name, Owner: ownerOf(pv), Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	old := v
	old.Created = time.Now().Add(-unfinishedAge)
	for what, row := range map[string]struct {
		edit func(*volume.Volume)
		want bool
	}{
		"abandoned": {func(*volume.Volume) {}, true},
		"new":       {func(v *volume.Volume) { v.Created = v.Created.Add(2 * time.Second) }, false},
		"ephemeral": {func(v *volume.Volume) { v.Ephemeral = true }, false},
		"by hand":   {func(v *volume.Volume) { v.PV = "" }, false},
		"deleted":   {func(v *volume.Volume) { v.State = record.Deleting }, false},
		"bound":     {func(v *volume.Volume) { v.State = record.Bound }, false},
	} {
		v := old
		row.edit(&v)
		if got := c.unfinished(pool, v); got != row.want {
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
	if c.unfinished(pool, old) {
		t.Error("a volume whose PV is saved is unfinished")
	}
	pv.Annotations[contract.AnnPool] = c.Pools.Named("fast").ID()
	if !c.unfinished(pool, old) {
		t.Error("a volume whose PV names another pool is finished")
	}
}

// A volume whose claim waits for its PV is not asked about at the API server; any other is.
func TestIsAwaited(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*PVs, *corev1.PersistentVolumeClaim)
		want bool
	}{
		"it waits":              {func(*PVs, *corev1.PersistentVolumeClaim) {}, true},
		"another claim":         {func(_ *PVs, claim *corev1.PersistentVolumeClaim) { claim.UID = "next" }, false},
		"bound to another PV":   {func(_ *PVs, claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = "other" }, false},
		"gone":                  {func(_ *PVs, claim *corev1.PersistentVolumeClaim) { claim.Name = "other" }, false},
		"its PV is there":       {func(c *PVs, _ *corev1.PersistentVolumeClaim) { _ = c.informer.GetStore().Add(validPV(c, "now")) }, false},
		"no claim is known yet": {func(c *PVs, _ *corev1.PersistentVolumeClaim) { c.local = nil }, false},
	} {
		c := newPVs(t)
		pv := validPV(c, "now")
		owner := ownerOf(pv)
		claim := classtest.Claim(owner.UID, "now", "")
		claim.Namespace, claim.Name = owner.Namespace, owner.Name
		c.local = cache.NewStore(cache.MetaNamespaceKeyFunc)
		store := c.local
		row.edit(c, claim)
		if err := store.Add(claim); err != nil {
			t.Fatal(err)
		}
		if got := c.isAwaited(volume.Volume{Record: record.Record{PV: pv.Name, Owner: owner}}); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An empty volume that does not fit is removed only if it was made for this claim and no PV ever
// named it.
func TestDiscard(t *testing.T) {
	claim := classtest.Claim("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", "now", "")
	name := contract.PVName(claim)
	for what, row := range map[string]struct {
		edit   func(*volume.Volume)
		inside bool // a file is in it
		saved  bool // the API server has its PV
		stays  string
	}{
		"never named":        {func(*volume.Volume) {}, false, false, ""},
		"bound":              {func(v *volume.Volume) { v.State = record.Bound }, false, false, "a PV had it"},
		"adopted":            {func(v *volume.Volume) { v.Adopted = true }, false, false, "a PV had it"},
		"an inline volume":   {func(v *volume.Volume) { v.Ephemeral = true }, false, false, "a PV had it"},
		"of another claim":   {func(v *volume.Volume) { v.Owner.UID = "other" }, false, false, "another claim"},
		"of another PV":      {func(v *volume.Volume) { v.PV = "pvc-other" }, false, false, "a PV had it"},
		"without a PV":       {func(v *volume.Volume) { v.PV = "" }, false, false, ""},
		"young":              {func(v *volume.Volume) { v.Created = time.Now() }, false, false, "its PV may still be saved"},
		"its PV was saved":   {func(*volume.Volume) {}, false, true, "PV " + name + " exists"},
		"a file is in there": {func(*volume.Volume) {}, true, false, "it is not empty"},
	} {
		t.Run(what, func(t *testing.T) {
			c := newPVs(t)
			pool := c.Pools.All()[0]
			v, err := pool.Create(volume.Spec{Name: name, Bytes: 1, PV: name, Owner: record.Owner{UID: string(claim.UID)}, Cluster: "c"})
			if err != nil {
				t.Fatal(err)
			}
			if row.inside {
				if err := os.WriteFile(filepath.Join(v.Path, "f"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			setObjects(t, c)
			if row.saved {
				setObjects(t, c, validPV(c, "now"))
			}
			v.Created = time.Now().Add(-unfinishedAge)
			row.edit(&v)
			err = c.Discard(t.Context(), pool, v, claim)
			if (err == nil) != (row.stays == "") || err != nil && !strings.Contains(err.Error(), row.stays) {
				t.Errorf("%v, want %q", err, row.stays)
			}
			if _, statErr := os.Stat(v.Path); os.IsNotExist(statErr) != (row.stays == "") {
				t.Errorf("after %v: %v", err, statErr)
			}
		})
	}
}

// A volume that was made while the clock was ahead is as old as the time for which it has been
// known.
func TestAgeAfterAClockThatWasAhead(t *testing.T) {
	c := newPVs(t)
	pool, other := c.Pools.Named("legacy"), c.Pools.Named("fast")
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Now().Add(10 * 365 * 24 * time.Hour)
		v := volume.Volume{Record: record.Record{Name: "pvc-1", PV: "pvc-1", State: record.Ready, Created: ahead, Trash: "a"}}
		is := func(what string, pool *volume.Pool, v volume.Volume, want time.Duration) {
			t.Helper()
			if got := c.Age(pool, v); got != want {
				t.Errorf("%s: %s old, want %s", what, got, want)
			}
		}
		is("seen first", pool, v, 0)
		if c.unfinished(pool, v) {
			t.Error("a volume whose PV may still be saved is unfinished")
		}
		time.Sleep(unfinishedAge)
		is("seen again", pool, v, unfinishedAge)
		if !c.unfinished(pool, v) {
			t.Error("a volume that was made while the clock was ahead is never unfinished")
		}
		is("of that name in another pool", other, v, 0)
		again := v
		again.Trash = "b"
		is("made again", pool, again, 0)
		time.Sleep(time.Second)
		is("made again", pool, again, time.Second)
		again.Created = time.Now().Add(-time.Hour)
		is("by a clock that was right", pool, again, time.Hour)
		again.Created = ahead
		is("forgotten", pool, again, 0)
	})
}

// A PV hides a volume only if it may name it. One with the pool's UUID may, wherever it says that
// the pool is.
func TestNamesOther(t *testing.T) {
	c := newPVs(t)
	pool := c.Pools.Named("legacy")
	remote := func(pv *corev1.PersistentVolume) {
		delete(pv.Labels, contract.LabelNode)
		delete(pv.Annotations, contract.AnnProvisionOnNode)
		affinityValues(pv)[0] = "elsewhere"
	}
	without := func(edit func(*corev1.PersistentVolume)) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) {
			delete(pv.Annotations, contract.AnnPool)
			edit(pv)
		}
	}
	move := func(to string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = to }
	}
	none := func(*corev1.PersistentVolume) {}
	for what, row := range map[string]struct {
		class string
		edit  func(*corev1.PersistentVolume)
		want  bool
	}{
		"the PV":                          {"wait", none, false},
		"CSI":                             {"csi", none, false},
		"moved with its pool":             {"wait", move("/mnt/" + contract.PVName(classtest.Claim(testUID, "", ""))), false},
		"moved with its disk":             {"wait", remote, false},
		"CSI, moved with its disk":        {"csi", remote, false},
		"of another pool":                 {"wait", func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPool] = "another" }, true},
		"CSI, of another pool":            {"csi-fast", none, true},
		"another directory":               {"wait", move(pool.Path() + "/data"), true},
		"another handle":                  {"csi", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "data" }, true},
		"no pool":                         {"wait", without(none), false},
		"no pool, path not clean":         {"wait", without(func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path += "/" }), false},
		"no pool, elsewhere":              {"wait", without(move("/elsewhere/" + contract.PVName(classtest.Claim(testUID, "", "")))), true},
		"no pool, another node":           {"wait", without(remote), true},
		"CSI, no pool":                    {"csi", without(none), false},
		"CSI, no pool, another attribute": {"csi", without(func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes = nil }), false},
		"CSI, no pool, another node":      {"csi", without(remote), true},
		"no source that is known":         {"wait", without(func(pv *corev1.PersistentVolume) { pv.Spec.HostPath = nil }), false},
	} {
		pv := validPV(c, row.class)
		row.edit(pv)
		if got := c.NamesOther(pv, pool, pv.Name); got != row.want {
			t.Errorf("%s: names another volume: %v", what, got)
		}
	}
}
