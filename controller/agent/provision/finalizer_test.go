package provision

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Without permission to patch PVs a PV gets no finalizer, which could not be removed, and the
// library is not let add one. One that is there is its to remove, however often that fails.
func TestNoFinalizerWithoutPatch(t *testing.T) {
	for _, may := range []bool{true, false} {
		c := examiner(t)
		if !may {
			forbidPatch(t, c)
		}
		pv := goodPV(c, "now")
		pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		pv.Finalizers = []string{"example.com/keep", contract.Finalizer}
		var created corev1.PersistentVolume
		patched := 0
		answers(t, c, func(r *http.Request) (int, any) {
			if r.Method == http.MethodPatch {
				patched++
			} else if err := json.NewDecoder(r.Body).Decode(&created); err != nil {
				t.Error(err)
			}
			return http.StatusOK, pv
		})
		pvs := libraryClient{c.Client, c}.CoreV1().PersistentVolumes()
		if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := contract.HasFinalizer(&created); got != may || !slices.Contains(created.Finalizers, "example.com/keep") {
			t.Errorf("may patch %v: created with finalizers %v", may, created.Finalizers)
		}
		for i, has := range []bool{false, true} {
			saved := pv.DeepCopy()
			saved.UID = "first"
			if !has {
				saved.Finalizers = nil
			}
			if err := c.PVs.Informer().GetStore().Add(saved); err != nil {
				t.Fatal(err)
			}
			before := patched
			if _, err := pvs.Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if asked := patched > before; asked != (may || has) {
				t.Errorf("%d: may patch %v, finalizer there %v: asked %v", i, may, has, asked)
			}
		}
	}
}

// The library lets a PV go whose policy is not Delete any more. It may not before the record has
// that policy, by which --orphans=delete decides: the pool may not be ready, or the PV not have
// been handled yet.
func TestFinalizerWaitsForTheRecord(t *testing.T) {
	retain, remove := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	for name, row := range map[string]struct {
		recorded, policy corev1.PersistentVolumeReclaimPolicy
		closed, held     bool
		words            string // "" if the patch is sent
	}{
		"recorded":                {recorded: retain, policy: retain},
		"not recorded":            {recorded: remove, policy: retain, words: `the record has "Delete"`},
		"not ready":               {recorded: remove, policy: retain, closed: true, words: "kubectl patch pv"},
		"not ready, and recorded": {recorded: retain, policy: retain, closed: true, words: "kubectl patch pv"},
		"deleted":                 {recorded: remove, policy: remove, closed: true},
		"being replaced":          {recorded: remove, policy: retain, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := examiner(t)
			pv := goodPV(c, "now")
			pv.Finalizers = []string{contract.Finalizer}
			pv.Spec.PersistentVolumeReclaimPolicy = row.policy
			pool, directory := c.PVs.Names(pv)
			owner := record.Owner{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name, UID: contract.ClaimUID(pv)}
			_, err := pool.Create(volume.Spec{Name: directory, Bytes: 1 << 20, PV: pv.Name, Owner: owner})
			if err == nil {
				_, err = pool.Bind(directory, volume.Binding{PV: pv.Name, Owner: owner, ReclaimPolicy: string(row.recorded)})
			}
			if err == nil && row.held {
				_, err = pool.BeginMigration(directory, record.Migration{})
			}
			if err == nil && row.closed {
				err = pool.Close()
			}
			if err == nil {
				err = c.PVs.Informer().GetStore().Add(pv)
			}
			if err != nil {
				t.Fatal(err)
			}
			patched := 0
			answers(t, c, func(*http.Request) (int, any) {
				patched++
				return http.StatusOK, pv
			})
			_, err = libraryClient{c.Client, c}.CoreV1().PersistentVolumes().Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{})
			if sent := patched > 0; sent != (row.words == "") || sent != (err == nil) || err != nil && !strings.Contains(err.Error(), row.words) {
				t.Errorf("sent: %v, %v; want %q", sent, err, row.words)
			}
		})
	}
}

// An administrator who deletes a PV with policy Retain learns why it stays. A pool that is ready
// records the policy at once, which is worth no event.
func TestHeldPVSaysWhy(t *testing.T) {
	for what, row := range map[string]struct {
		deleted time.Duration // ago; 0 if the PV is not being deleted
		closed  bool
		want    []string // words of the event; none if there is none
	}{
		"kept":                  {closed: true},
		"deleted":               {deleted: time.Second, closed: true, want: []string{"node node-01", "Retain", "kubectl patch pv"}},
		"deleted, not recorded": {deleted: time.Second},
		"not recorded for long": {deleted: time.Hour, want: []string{"node node-01", `the record has "Delete"`}},
	} {
		c := examiner(t)
		pv := goodPV(c, "csi")
		pv.Finalizers, pv.UID = []string{contract.Finalizer}, "pv-uid"
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if row.deleted > 0 {
			pv.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-row.deleted)}
		}
		pool, directory := c.PVs.Names(pv)
		owner := record.Owner{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name, UID: contract.ClaimUID(pv)}
		_, err := pool.Create(volume.Spec{Name: directory, Bytes: 1 << 20, PV: pv.Name, Owner: owner})
		if err == nil {
			_, err = pool.Bind(directory, volume.Binding{PV: pv.Name, Owner: owner, ReclaimPolicy: "Delete"})
		}
		if err == nil && row.closed {
			err = pool.Close()
		}
		if err == nil {
			err = c.PVs.Informer().GetStore().Add(pv)
		}
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset()
		c.Events = events.New(client, "node-01")
		if _, err := (libraryClient{c.Client, c}).CoreV1().PersistentVolumes().Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err == nil {
			t.Errorf("%s: the finalizer goes", what)
		}
		c.Events.Close()
		said, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(said.Items) != min(1, len(row.want)) {
			t.Fatalf("%s: %+v, %v", what, said, err)
		}
		for _, words := range row.want {
			if e := said.Items[0]; e.Type != corev1.EventTypeWarning || e.InvolvedObject.UID != pv.UID || !strings.Contains(e.Message, words) {
				t.Errorf("%s: %+v, want %q", what, e, words)
			}
		}
	}
}
