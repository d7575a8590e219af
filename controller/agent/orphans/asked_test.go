package orphans

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func namedOf(pool *volume.Pool, r record.Record) Named {
	return Named{Pool: pool.ID(), Name: r.Name, Created: r.Created, Trash: r.Trash}
}

func thisCluster() answers {
	return answers{
		"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		"persistentvolumes":      corev1.PersistentVolumeList{},
	}
}

// runs answers requests as Run does, until the test ends.
func runs(t *testing.T, o *Checker) {
	t.Helper()
	go func() {
		for {
			select {
			case r := <-o.asked:
				r.done <- o.removeNamed(r.ctx, r.volume)
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// An administrator removes one orphan by its record, under the conditions of --orphans=delete but
// for the grace period. A name alone, or an older or later volume of that name, is not enough.
func TestRemoveByName(t *testing.T) {
	object := func(name, uid string) metav1.ObjectMeta {
		o := metav1.ObjectMeta{Name: name}
		o.UID = "2"
		if uid != "" {
			o.UID = "1"
		}
		return o
	}
	const claim = "namespaces/ns/persistentvolumeclaims/data"
	for what, row := range map[string]struct {
		says func(answers)
		edit func(*Named)
		bind func(*testing.T, *volume.Pool, volume.Volume) // before the call
		want string                                        // of the error; "" if it goes
	}{
		"all gone":          {},
		"never noted":       {bind: func(*testing.T, *volume.Pool, volume.Volume) {}},
		"no pool":           {edit: func(n *Named) { n.Pool = "" }, want: "no pool"},
		"another pool":      {edit: func(n *Named) { n.Pool = "0b1c2d3e" }, want: "no pool"},
		"another name":      {edit: func(n *Named) { n.Name = "pvc-2" }, want: "no such volume"},
		"an earlier volume": {edit: func(n *Named) { n.Created = n.Created.Add(-time.Second) }, want: "no such volume"},
		"by its name alone": {edit: func(n *Named) { n.Trash = "" }, want: "no such volume"},
		"the PV is back": {says: func(a answers) {
			a["persistentvolumes/pvc-1"] = corev1.PersistentVolume{ObjectMeta: object("pvc-1", "")}
		}, want: "not an orphan"},
		"the claim is there":       {says: func(a answers) { a[claim] = corev1.PersistentVolumeClaim{ObjectMeta: object("data", "1")} }, want: "its claim exists"},
		"no answer about a claim":  {says: func(a answers) { a[claim] = 500 }, want: "read claim"},
		"another cluster":          {says: func(a answers) { a["namespaces/kube-system"] = corev1.Namespace{ObjectMeta: object("kube-system", "")} }, want: "cluster"},
		"no answer about clusters": {says: func(a answers) { a["namespaces/kube-system"] = 403 }, want: "identity is unknown"},
		"no list of PVs":           {says: func(a answers) { a["persistentvolumes"] = 500 }, want: "persistentvolumes"},
		"a PV that names it": {says: func(a answers) {
			a["persistentvolumes"] = corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{{ObjectMeta: object("x", ""),
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/a/pvc-1"}}}}}}
		}, want: "PV x names it"},
		"policy Retain": {bind: func(t *testing.T, pool *volume.Pool, v volume.Volume) {
			if _, err := pool.Bind(v.Name, volume.Binding{PV: v.PV, Owner: v.Owner, ReclaimPolicy: "Retain"}); err != nil {
				t.Fatal(err)
			}
		}, want: `policy was "Retain"`},
	} {
		t.Run(what, func(t *testing.T) {
			says := thisCluster()
			if row.says != nil {
				row.says(says)
			}
			o, v := orphaned(t, says)
			o.Delete, o.Grace = false, 24*time.Hour
			pool := o.Pools.All()[0]
			if row.bind != nil {
				row.bind(t, pool, v)
			} else {
				o.check(t.Context())
			}
			runs(t, o)
			n := namedOf(pool, v.Record)
			if row.edit != nil {
				row.edit(&n)
			}
			err := o.Remove(t.Context(), n)
			_, stat := os.Stat(v.Path)
			switch gone := os.IsNotExist(stat); {
			case gone != (row.want == ""), row.want == "" && err != nil:
				t.Errorf("gone %v, %v", gone, err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

// A caller that leaves before the agent gets to its request has nothing removed, and one whose
// agent does not check yet gets an error that a retry ends.
func TestRemoveIsNotDoneForACallerThatLeft(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := namedOf(o.Pools.All()[0], v.Record)
	if err := o.Remove(ctx, n); !errors.Is(err, volume.ErrNotReady) {
		t.Errorf("%v, want an ErrNotReady", err)
	}
	_ = o.removeNamed(ctx, n)
	if _, err := os.Stat(v.Path); err != nil {
		t.Error(err)
	}
}

// A removal that was killed between its two steps left the volume in the trash. A second call ends
// it.
func TestRemoveGoesOn(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	o.Delete = false
	pool := o.Pools.All()[0]
	if _, err := pool.NoteOrphan(v.Name, "its PV is gone", 0); err != nil { // as the first call did
		t.Fatal(err)
	}
	setAside(t, pool, v)
	entry := filepath.Join(pool.Path(), ".hostpath-provisioner/trash", v.Trash)
	runs(t, o)
	if err := o.Remove(t.Context(), namedOf(pool, v.Record)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(entry + ".json"); err != nil {
		t.Errorf("the deletion is not decided: %v", err)
	}
}

// restorer makes the PV of a test.
type restorer struct{ class string }

func (r restorer) Restored(_ *volume.Pool, v volume.Volume, claim *corev1.PersistentVolumeClaim, _ []storagev1.StorageClass) (*corev1.PersistentVolume, error) {
	if claim.Spec.StorageClassName == nil {
		claim.Spec.StorageClassName = &r.class
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.PV}}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(v.Bytes, resource.BinarySI)}
	return pv, nil
}

func TestObjectsThatBringBack(t *testing.T) {
	const class, path = "c", "namespaces/ns/persistentvolumeclaims/data"
	name := class
	claim := func(uid, volume string) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}}
		c.UID, c.Spec.VolumeName, c.Spec.StorageClassName = "u"+"", volume, &name
		if uid != "" {
			c.UID = "1"
		}
		return c
	}
	for what, row := range map[string]struct {
		says   answers
		claim  string // the claim's name, "" if it exists
		notes  string
		failed string
	}{
		"all gone":             {nil, "data", "restore it once", ""},
		"the claim is Lost":    {answers{path: claim("1", "pvc-1")}, "", "exists and names this PV", ""},
		"a restored claim":     {answers{path: claim("", "pvc-1")}, "", "exists and names this PV", ""},
		"the name is taken":    {answers{path: claim("", "")}, "data-restored", "is taken", ""},
		"the PV's name is too": {answers{"persistentvolumes/pvc-1": corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}}, "", "", "PV pvc-1 exists"},
		"no answer":            {answers{path: 500}, "", "", "read claim"},
	} {
		t.Run(what, func(t *testing.T) {
			says := thisCluster()
			says["/apis/storage.k8s.io/v1/storageclasses"] = storagev1.StorageClassList{}
			for key, value := range row.says {
				says[key] = value
			}
			o, v := orphaned(t, says)
			got, err := o.Restored(t.Context(), Wanted{Named: namedOf(o.Pools.All()[0], v.Record)}, restorer{class})
			if row.failed != "" {
				if err == nil || !strings.Contains(err.Error(), row.failed) {
					t.Errorf("%v, want %q", err, row.failed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ref := got.PV.Spec.ClaimRef
			if size := got.PV.Spec.Capacity.Storage(); size.Cmp(resource.MustParse("1Mi")) != 0 || ref.Namespace != "ns" || (ref.UID != "") != (row.claim == "") {
				t.Errorf("%s for %+v", size, ref)
			}
			switch {
			case (got.Claim == nil) != (row.claim == ""):
				t.Errorf("claim %+v", got.Claim)
			case got.Claim != nil && (got.Claim.Name != row.claim || ref.Name != row.claim || got.Claim.Spec.VolumeName != "pvc-1"):
				t.Errorf("claim %+v, and the PV is for %s", got.Claim, ref.Name)
			}
			if text := strings.Join(got.Notes, "\n"); !strings.Contains(text, row.notes) {
				t.Errorf("notes %q, want %q", text, row.notes)
			}
		})
	}
}

// A claim that the caller names must not exist: one that waits may be an importer's.
func TestObjectsForAnotherClaim(t *testing.T) {
	const path = "namespaces/b/persistentvolumeclaims/other"
	claim := func(volume string) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "other", UID: "u"}}
		class := "c"
		c.Spec.VolumeName, c.Spec.StorageClassName = volume, &class
		return c
	}
	for what, row := range map[string]struct {
		as     string
		says   any
		failed string
	}{
		"a new one": {"b/other", nil, ""}, "of an earlier try": {"b/other", claim("pvc-1"), ""}, "one that waits": {"b/other", claim(""), "claim b/other exists"},
		"one with another volume": {"b/other", claim("pvc-2"), "claim b/other exists"}, "no namespace": {"other", nil, "is not NAMESPACE/CLAIM"},
		"a path": {"b/../x", nil, "is not NAMESPACE/CLAIM"}, "no answer": {"b/other", 500, "read claim"},
	} {
		says := thisCluster()
		says["/apis/storage.k8s.io/v1/storageclasses"] = storagev1.StorageClassList{}
		if row.says != nil {
			says[path] = row.says
		}
		o, v := orphaned(t, says)
		got, err := o.Restored(t.Context(), Wanted{Named: namedOf(o.Pools.All()[0], v.Record), As: row.as}, restorer{"c"})
		if (err != nil) != (row.failed != "") || err != nil && !strings.Contains(err.Error(), row.failed) {
			t.Errorf("%s: %v, want %q", what, err, row.failed)
		}
		if err == nil && (got.PV.Spec.ClaimRef.Namespace != "b" || got.PV.Spec.ClaimRef.Name != "other" || (got.Claim == nil) != (row.says != nil) ||
			got.Claim != nil && got.Claim.Spec.VolumeName != "pvc-1") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// The list has what Remove would keep, and why.
func TestOrphansAreListed(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	o.Delete = false
	for _, want := range []string{"", `policy was "Retain"`} {
		o.check(t.Context())
		all, err := o.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Name != v.Name || all[0].Claim != "ns/data" || all[0].Why == "" || (all[0].Kept == "") != (want == "") ||
			!strings.Contains(all[0].Kept, want) {
			t.Errorf("%+v, %v; want kept %q", all, err, want)
		}
		pool := o.Pools.All()[0]
		if _, err := pool.Bind(v.Name, volume.Binding{PV: v.PV, Owner: v.Owner, ReclaimPolicy: "Retain"}); err != nil {
			t.Fatal(err)
		}
		if all, err := o.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("a volume with a PV: %+v, %v", all, err)
		}
	}
}

// A PV that a list lacks went unseen, as after etcd was restored: its volume stays. So did one that a
// write took the node's label from: the watch reports it as deleted in the state before, and that write
// may have set Retain. One whose end was seen goes.
func TestPVThatWentUnseen(t *testing.T) {
	now := metav1.Now()
	there := &corev1.PersistentVolume{}
	deleted := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	for what, row := range map[string]struct {
		reported any
		stays    bool
	}{
		"a list lacks it":                        {cache.DeletedFinalStateUnknown{Obj: there}, true},
		"a list lacks it, and it was deleted":    {cache.DeletedFinalStateUnknown{Obj: deleted}, true},
		"it lost the label, and was not deleted": {there, true},
		"it was deleted":                         {deleted, false},
	} {
		o, v := orphaned(t, thisCluster())
		pool := o.Pools.All()[0]
		o.PVs = naming{o.PVs, place{pool, v.Name}}
		o.pvDeleted(row.reported)
		o.check(t.Context())
		if there, err := pool.HasDirectory(v.Name); there != row.stays || err != nil {
			t.Errorf("%s: the volume is there: %v, %v", what, there, err)
		}
	}
}

// naming has PVs that name one volume.
type naming struct {
	PVs
	place place
}

func (n naming) Names(*corev1.PersistentVolume) (*volume.Pool, string) {
	return n.place.pool, n.place.name
}

// The list keeps what Remove keeps: a volume whose PV went while the agent did not see it, too.
func TestUnseenOrphanIsListedAsKept(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	o.Delete = false
	o.check(t.Context())
	for _, want := range []string{"", "not known"} {
		if all, err := o.List(t.Context()); err != nil || len(all) != 1 || (all[0].Kept == "") != (want == "") || !strings.Contains(all[0].Kept, want) {
			t.Errorf("%+v, %v; want kept %q", all, err, want)
		}
		if err := o.Pools.All()[0].Unsee(v.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// A PV was set to Retain and went before the agent had the policy in the record: its disk was away,
// and an administrator removed the finalizer as the event says, or it never had one. The volume stays,
// also if the disk comes back in the middle of a check, and for good.
func TestRetainOfAPVThatWentAtOnce(t *testing.T) {
	for _, away := range []bool{false, true} {
		o, v := orphaned(t, thisCluster())
		pool := o.Pools.All()[0]
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.PV},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Path}}}}
		o.PVs = naming{o.PVs, place{pool, v.Name}}
		if away {
			if err := os.Rename(pool.Path(), pool.Path()+".away"); err != nil {
				t.Fatal(err)
			}
			_ = pool.Ready()
		}
		o.pvDeleted(pv)
		o.check(t.Context())
		if away {
			if err := os.Rename(pool.Path()+".away", pool.Path()); err != nil {
				t.Fatal(err)
			}
			if err := pool.Ready(); err != nil {
				t.Fatal(err)
			}
			found, err := o.find(t.Context(), pool, o.localPVs())
			if err != nil {
				t.Fatal(err)
			}
			o.remove(t.Context(), pool, &found)
		}
		for range 2 {
			o.check(t.Context())
			if there, err := pool.HasDirectory(v.Name); !there || err != nil {
				t.Fatalf("away: %v; the volume is there: %v, %v", away, there, err)
			}
		}
		if r, _ := pool.Cached(v.Name); r.ReclaimPolicy != "Retain" {
			t.Errorf("away: %v; recorded %+v", away, r)
		}
	}
}
