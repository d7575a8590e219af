package provision

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// Without permission to patch PVs a PV gets no finalizer, which could not be removed, and the library is not let add
// one. One that is there is its to remove, however often that fails.
func TestNoFinalizerWithoutPatch(t *testing.T) {
	for _, may := range []bool{true, false} {
		c := examiner(t)
		if !may {
			forbidPatch(t, c)
		}
		pv := goodPV(c, "now")
		pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		pv.Finalizers = []string{"example.com/keep", class.Finalizer}
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
		pvs := libraryClient{c.client, c}.CoreV1().PersistentVolumes()
		if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(created.Finalizers, class.Finalizer); got != may || !slices.Contains(created.Finalizers, "example.com/keep") {
			t.Errorf("may patch %v: created with finalizers %v", may, created.Finalizers)
		}
		for i, has := range []bool{false, true} {
			saved := pv.DeepCopy()
			saved.UID = "first"
			if !has {
				saved.Finalizers = nil
			}
			if err := c.pvs.Informer().GetStore().Add(saved); err != nil {
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
