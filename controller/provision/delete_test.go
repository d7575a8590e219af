package provision

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume that is gone is deleted with success as long as its PV waits for
// that; where that is gone as well, the library has nothing more to do.
func TestDeleteAgain(t *testing.T) {
	deleted := metav1.Now()
	c := examiner(t)
	pv := goodPV(t, c, "now")
	pv.UID = "first"
	with := func(edit func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		there := pv.DeepCopy()
		there.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		edit(there)
		return there
	}
	for name, test := range map[string]struct {
		status  int
		answer  any
		ignored bool
		fails   bool
	}{
		"as it was": {http.StatusOK, with(func(*corev1.PersistentVolume) {}), false, false},
		"waits for its finalizer": {http.StatusOK, with(func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers = &deleted, []string{class.Finalizer}
		}), false, false},
		"waits for somebody else": {http.StatusOK, with(func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers = &deleted, []string{"example.com/keep"}
		}), true, false},
		"another of the name": {http.StatusOK, with(func(pv *corev1.PersistentVolume) { pv.UID = "second" }), true, false},
		"gone":                {http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound), true, false},
		"nobody knows":        {http.StatusForbidden, failure(http.StatusForbidden, metav1.StatusReasonForbidden), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			answers(t, c, func(string) (int, any) { return test.status, test.answer })
			err := c.done(t.Context(), pv)
			var ignored *lib.IgnoredError
			if got := errors.As(err, &ignored); got != test.ignored || (err != nil && !got) != test.fails {
				t.Errorf("%v", err)
			}
		})
	}
}

// What the library's own last write says of a PV is known before the watch tells.
func TestShouldDeleteFinished(t *testing.T) {
	c := examiner(t)
	pv := goodPV(t, c, "now")
	pv.UID = "first"
	if _, err := c.pools.Create(c.pools.All()[0], volume.Spec{Name: pv.Name, Bytes: 1, PV: pv.Name, Owner: ownerOf(pv)}); err != nil {
		t.Fatal(err)
	}
	deleted := metav1.Now()
	for _, row := range []struct {
		finalizers []string
		should     bool
	}{{[]string{class.Finalizer}, true}, {[]string{"example.com/keep"}, false}} {
		there := pv.DeepCopy()
		there.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		there.DeletionTimestamp, there.Finalizers = &deleted, row.finalizers
		answers(t, c, func(string) (int, any) { return http.StatusOK, there })
		_, err := savingClient{c.client, c}.CoreV1().PersistentVolumes().Patch(
			t.Context(), pv.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ShouldDelete(t.Context(), pv); got != row.should {
			t.Errorf("finalizers %v: should be deleted: %v", row.finalizers, got)
		}
	}
}
