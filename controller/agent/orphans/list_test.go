package orphans

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The list says of each orphan what Remove does.
func TestListSaysWhatRemoveDoes(t *testing.T) {
	const claims = "namespaces/ns/persistentvolumeclaims/data"
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pvc-1", corev1.ClaimLost
	named := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	named.Spec.Local = &corev1.LocalVolumeSource{Path: "/a/pvc-1"}
	for what, row := range map[string]struct {
		path string
		says any
		edit func(volume.Volume) error
		want string // of both; "" if it goes
	}{
		"nothing needs it":      {},
		"its claim is Lost":     {path: claims, says: claim, want: "its claim exists"},
		"claims cannot be read": {path: claims, says: 500, want: "read claim"},
		"a PV names it":         {path: "persistentvolumes", says: corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{named}}, want: "PV x names it"},
		"PVs cannot be listed":  {path: "persistentvolumes", says: 500, want: "persistentvolumes"},
		"another cluster": {path: "namespaces/kube-system", says: corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "there"}},
			want: "cluster"},
		"the cluster is not known": {path: "namespaces/kube-system", says: 403, want: "identity is unknown"},
		"a file has its name": {edit: func(v volume.Volume) error {
			return errors.Join(os.Remove(v.Path), os.WriteFile(v.Path, nil, 0o600))
		}, want: "pvc-1"},
	} {
		t.Run(what, func(t *testing.T) {
			says := thisCluster()
			o, v := orphaned(t, says)
			o.Delete, o.Grace = false, 24*time.Hour
			pool := o.Pools.All()[0]
			o.check(t.Context())
			if row.path != "" {
				says[row.path] = row.says
			}
			if row.edit != nil {
				if err := row.edit(v); err != nil {
					t.Fatal(err)
				}
			}
			all, err := o.List(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			runs(t, o)
			removed := ""
			if err := o.Remove(t.Context(), namedOf(pool, v.Record)); err != nil {
				removed = err.Error()
			}
			if (all[0].Kept == "") != (row.want == "") || (removed == "") != (row.want == "") ||
				!strings.Contains(all[0].Kept, row.want) || !strings.Contains(removed, row.want) {
				t.Errorf("the list: %q; Remove: %q; want %q in both", all[0].Kept, removed, row.want)
			}
		})
	}
}

// Of very many orphans the API server is not asked about all.
func TestListOfVeryManyOrphans(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	o.Delete = false
	pool := o.Pools.All()[0]
	if _, err := pool.Create(volume.Spec{Name: "pvc-2", Bytes: 1 << 20, PV: "pvc-2", Owner: v.Owner, Cluster: "here", ReclaimPolicy: "Delete"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Bind("pvc-2", volume.Binding{PV: "pvc-2", Owner: v.Owner, ReclaimPolicy: "Delete"}); err != nil {
		t.Fatal(err)
	}
	o.check(t.Context())
	for most, want := range map[int][]string{2: {"", ""}, 1: {"", "unknown: only the first 1 are checked; remove checks each"}} {
		all, err := o.list(t.Context(), most)
		if err != nil || len(all) != 2 || all[0].Kept != want[0] || all[1].Kept != want[1] {
			t.Errorf("at most %d: %+v, %v", most, all, err)
		}
	}
}

// How a PV went is known before its volume's record says it. A removal by name writes it first, as a check
// does.
func TestRemoveByNameWritesHowThePVWent(t *testing.T) {
	for what, row := range map[string]struct {
		unseen bool
		policy corev1.PersistentVolumeReclaimPolicy
	}{"unseen": {true, "Delete"}, "with Retain": {false, "Retain"}} {
		o, v := orphaned(t, thisCluster())
		o.Delete = false
		pool := o.Pools.All()[0]
		o.check(t.Context())
		now := metav1.Now()
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.PV, DeletionTimestamp: &now},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: row.policy,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Path}}}}
		o.PVs = naming{o.PVs, place{pool, v.Name}}
		if o.pvDeleted(pv); row.unseen {
			o.pvDeleted(cache.DeletedFinalStateUnknown{Obj: pv})
		}
		runs(t, o)
		err := o.Remove(t.Context(), namedOf(pool, v.Record))
		if there, stat := pool.HasDirectory(v.Name); err == nil || !there || stat != nil {
			t.Errorf("%s: removed: %v; the volume is there: %v, %v", what, err, there, stat)
		}
	}
}
