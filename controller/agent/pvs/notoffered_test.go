package pvs

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A pool that a setting leaves out says nothing about its disk: its volumes are not reported as
// lost, and no sweep waits for it.
func TestPoolThatIsNotOffered(t *testing.T) {
	p := newPVs(t)
	registeredAs(t, p, "new", "new")
	dir := t.TempDir()
	for _, notOffered := range []string{"", "config.json is wrong"} {
		out, err := volume.New(volume.Config{Name: "out", Path: dir + "/missing/out", NotOffered: notOffered})
		if err != nil {
			t.Fatal(err)
		}
		if p.Pools, err = volume.NewPools(out); err != nil {
			t.Fatal(err)
		}
		p.backends = []*backend{p.backend(backends.HostPath(p.Node, backends.Served{Dialect: contract.Own(false), Pools: []*volume.Pool{out}}))}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv-uid", Annotations: map[string]string{
			contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnPool: "6e0c", contract.AnnNodeUID: "old",
		}}}
		pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: out.Path() + "/pvc-1"}
		patches := 0
		setAnswer(t, p, func(r *http.Request) (int, any) {
			if r.Method == http.MethodPatch {
				patches++
				return http.StatusOK, pv
			}
			return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
		})
		p.notOpen["6e0c"] = time.Now().Add(-reportAfter)
		if err := p.reportPool(t.Context(), pv); err != nil {
			t.Fatal(err)
		}
		p.unlabelled.Store(&[]corev1.PersistentVolume{*pv})
		_, later := p.label(t.Context())
		if offered := notOffered == ""; offered != (patches == 1) || later != offered {
			t.Errorf("not offered: %q: %d patches, waits: %t", notOffered, patches, later)
		}
	}
}
