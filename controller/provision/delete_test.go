package provision

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
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
