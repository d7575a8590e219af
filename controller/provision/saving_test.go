package provision

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// What the library writes once a volume is gone: its finalizer goes before the PV,
// and what it writes after that, not knowing it, is not written. Where the PV was
// changed meanwhile, or somebody deletes it already, the library goes its own way.
func TestDeletePV(t *testing.T) {
	const release, remove, late = "PATCH before", "DELETE", "PATCH after"
	keep := "kubernetes.io/pv-protection"
	for _, row := range []struct {
		name       string
		finalizers []string
		deleted    bool
		conflict   bool
		want       []string
	}{
		{"with the library's finalizer", []string{keep, class.Finalizer}, false, false, []string{release, remove}},
		{"with nobody else's", []string{class.Finalizer}, false, false, []string{release, remove}},
		{"without", []string{keep}, false, false, []string{remove}},
		{"changed meanwhile", []string{keep, class.Finalizer}, false, true, []string{release, remove, late}},
		{"deleted already", []string{keep, class.Finalizer}, true, false, []string{remove, late}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := examiner(t)
			pv := goodPV(t, c, "now")
			pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
			pv.UID, pv.ResourceVersion, pv.Finalizers = "first", "7", row.finalizers
			pv.Status.Phase = corev1.VolumeReleased
			if row.deleted {
				pv.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}
			}
			if err := c.pvs.GetStore().Add(pv); err != nil { // which is all the library sees until the end
				t.Fatal(err)
			}
			var got, bodies []string
			patch := release
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				what := r.Method
				if what == http.MethodPatch {
					what = patch
				}
				got, bodies = append(got, what), append(bodies, string(body))
				w.Header().Set("Content-Type", "application/json")
				var answer any = pv
				if row.conflict && what == release {
					w.WriteHeader(http.StatusConflict)
					answer = failure(http.StatusConflict, metav1.StatusReasonConflict)
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer api.Close()
			c.client = kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
			pvs := savingClient{c.client, c}.CoreV1().PersistentVolumes()

			c.emptied.Store(pv.Name, pv) // as Delete does
			if row.deleted {
				patch = late
			}
			if err := pvs.Delete(t.Context(), pv.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			patch = late
			if slices.Contains(row.finalizers, class.Finalizer) {
				if _, err := pvs.Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("requests %q, want %q", got, row.want)
			}
			if got[0] == release && (!strings.Contains(bodies[0], `"resourceVersion":"7"`) || strings.Contains(bodies[0], class.Finalizer)) {
				t.Errorf("the finalizer is taken off with %s", bodies[0])
			}
			if i := slices.Index(got, remove); !strings.Contains(bodies[i], `"uid":"first"`) {
				t.Errorf("the PV is deleted with %s", bodies[i])
			}
		})
	}
}
