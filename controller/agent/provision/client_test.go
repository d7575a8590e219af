package provision

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// What the library writes once a volume is gone: its finalizer goes before the PV,
// and what it writes after that, not knowing it, is not written. Where the PV was
// changed meanwhile, or somebody deletes it already, the library goes its own way;
// a PV that is gone is what it wants.
func TestDeletePV(t *testing.T) {
	const release, remove, late = "PATCH before", "DELETE", "PATCH after"
	keep := "kubernetes.io/pv-protection"
	deleted := metav1.Now()
	for _, row := range []struct {
		name       string
		finalizers []string
		deleted    *metav1.Time
		refused    int // what a write before the last is answered with, where it is refused
		want       []string
	}{
		{"with the library's finalizer", []string{keep, contract.Finalizer}, nil, 0, []string{release, remove}},
		{"with nobody else's", []string{contract.Finalizer}, nil, 0, []string{release, remove}},
		{"without", []string{keep}, nil, 0, []string{remove}},
		{"changed meanwhile", []string{keep, contract.Finalizer}, nil, http.StatusConflict, []string{release, remove, late}},
		{"gone meanwhile", []string{keep, contract.Finalizer}, nil, http.StatusNotFound, []string{release, remove}},
		{"deleted already", []string{keep, contract.Finalizer}, &deleted, 0, []string{remove, late}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := examiner(t)
			pv := goodPV(c, "now")
			pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
			pv.UID, pv.ResourceVersion, pv.Finalizers, pv.DeletionTimestamp = "first", "7", row.finalizers, row.deleted
			pv.Status.Phase = corev1.VolumeReleased
			if err := c.PVs.Informer().GetStore().Add(pv); err != nil { // which is all the library sees until the end
				t.Fatal(err)
			}
			var got, bodies []string
			patch := release
			answers(t, c, func(r *http.Request) (int, any) {
				body, _ := io.ReadAll(r.Body)
				what := r.Method
				if what == http.MethodPatch {
					what = patch
				}
				got, bodies = append(got, what), append(bodies, string(body))
				switch {
				case row.refused == http.StatusNotFound:
					return row.refused, apitest.Failure(row.refused, metav1.StatusReasonNotFound)
				case row.refused != 0 && what == release:
					return row.refused, apitest.Failure(row.refused, metav1.StatusReasonConflict)
				}
				return http.StatusOK, pv
			})
			pvs := libraryClient{c.Client, c}.CoreV1().PersistentVolumes()

			c.deletions.volumeGone(pv) // as Delete does
			if row.deleted != nil {
				patch = late
			}
			if err := pvs.Delete(t.Context(), pv.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			patch = late
			if slices.Contains(row.finalizers, contract.Finalizer) {
				if _, err := pvs.Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("requests %q, want %q", got, row.want)
			}
			if got[0] == release && (!strings.Contains(bodies[0], `"resourceVersion":"7"`) || strings.Contains(bodies[0], contract.Finalizer)) {
				t.Errorf("the finalizer is taken off with %s", bodies[0])
			}
			if i := slices.Index(got, remove); !strings.Contains(bodies[i], `"uid":"first"`) {
				t.Errorf("the PV is deleted with %s", bodies[i])
			}
		})
	}
}

// A policy or a webhook refuses that a PV is deleted whose volume is gone: the PV is told, and not tried
// again for minutes. What the API server cannot do now is tried again soon.
func TestPVThatMayNotBeDeleted(t *testing.T) {
	for status, reason := range map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable} {
		c, told, refused := examiner(t), 0, status != http.StatusServiceUnavailable
		pv := goodPV(c, "now")
		pv.UID, pv.Status.Phase = "first", corev1.VolumeReleased
		answers(t, c, func(r *http.Request) (int, any) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/events"):
				told++
				return http.StatusCreated, corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}
			case r.Method == http.MethodDelete:
				return status, apitest.Failure(status, reason)
			}
			return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
		})
		c.Events = events.New(c.Client, "node-01")
		defer c.Events.Close()
		c.deletions.volumeGone(pv) // as Delete does
		if err := (libraryClient{c.Client, c}).CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}); err == nil {
			t.Errorf("%d: it is deleted", status)
		}
		if should := c.ShouldDelete(t.Context(), pv); should == refused || (told == 1) != refused {
			t.Errorf("%d: %d events, to be tried again at once: %v", status, told, should)
		}
		c.deletions.refused.Remove(pv.UID) // minutes later
		if !c.ShouldDelete(t.Context(), pv) {
			t.Errorf("%d: never tried again", status)
		}
	}
}

// A PV that a claim has, or may get, is left alone.
func TestDeleteIgnored(t *testing.T) {
	c := examiner(t)
	pv := goodPV(c, "now")
	pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	pv.Spec.ClaimRef.UID, pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = "", corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
	c.PVs.Client = apitest.Client(t, func(*http.Request) (int, any) { return http.StatusOK, pv })
	if c.ShouldDelete(t.Context(), pv) {
		t.Error("a PV that waits for a claim should be deleted")
	}
	if err := c.Delete(t.Context(), pv); !errors.As(err, new(*lib.IgnoredError)) {
		t.Errorf("%v, want that the library ignores it", err)
	}
}

// What the library's own last write says of a PV is known before the watch tells.
func TestShouldDeleteFinished(t *testing.T) {
	c := examiner(t)
	pv := goodPV(c, "now")
	pv.UID = "first"
	if _, err := c.Pools.Create(c.Pools.All()[0], volume.Spec{Name: pv.Name, Bytes: 1, PV: pv.Name, Owner: record.Owner{UID: testUID}, Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	deleted := metav1.Now()
	for _, row := range []struct {
		finalizers []string
		should     bool
	}{{[]string{contract.Finalizer}, true}, {[]string{"example.com/keep"}, false}} {
		there := pv.DeepCopy()
		there.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		there.DeletionTimestamp, there.Finalizers = &deleted, row.finalizers
		answers(t, c, func(*http.Request) (int, any) { return http.StatusOK, there })
		_, err := libraryClient{c.Client, c}.CoreV1().PersistentVolumes().Patch(
			t.Context(), pv.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ShouldDelete(t.Context(), pv); got != row.should {
			t.Errorf("finalizers %v: should be deleted: %v", row.finalizers, got)
		}
	}
}

// The library takes any PV of the name for the one that it wanted to save.
func TestSaveOverAnothersPV(t *testing.T) {
	for _, ours := range []bool{true, false} {
		c := examiner(t)
		pv := goodPV(c, "now")
		there := pv.DeepCopy()
		there.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		if !ours {
			there.Spec.ClaimRef.UID = "another"
		}
		said := 0
		answers(t, c, func(r *http.Request) (int, any) {
			switch {
			case r.Method == http.MethodGet:
				return http.StatusOK, there
			case r.URL.Path == "/api/v1/persistentvolumes":
				return http.StatusConflict, apitest.Failure(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			}
			said++
			return http.StatusCreated, map[string]string{"kind": "Event", "apiVersion": "v1"}
		})
		c.Events = events.New(c.Client, "node-01")
		_, err := libraryClient{c.Client, c}.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) != ours || err == nil {
			t.Errorf("the claim's PV: %v: %v", ours, err)
		}
		if (said == 0) != ours {
			t.Errorf("the claim's PV: %v: %d events", ours, said)
		}
	}
}

// The library writes its copy of a claim, which lacks most of it. Only the scheduler's choice is
// removed, and a copy that still has one is not written.
func TestLibraryUpdatesNoClaim(t *testing.T) {
	for node, want := range map[string][]string{"": {http.MethodPatch}, "node-01": nil} {
		c := examiner(t)
		var requests []string
		answers(t, c, func(r *http.Request) (int, any) {
			requests = append(requests, r.Method)
			return http.StatusOK, corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}}
		})
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data",
			Annotations: map[string]string{contract.AnnSelectedNode: node}}}
		_, err := libraryClient{c.Client, c}.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), claim, metav1.UpdateOptions{})
		if (err == nil) != (want != nil) || !slices.Equal(requests, want) {
			t.Errorf("node %q: requests %q, %v; want %q", node, requests, err, want)
		}
	}
}
