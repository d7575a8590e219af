package pvs

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A pool that another process has is not missing: its volumes, which an administrator gave up while the disk
// was away, are not reported, and an earlier report is taken back.
func TestPoolThatIsHeld(t *testing.T) {
	for before, want := range map[string]string{"": "", "pool/new": `"hostpath-provisioner.kubevirt.io/missing":null`, "pool/old": ""} {
		p := newPVs(t)
		registeredAs(t, p, "new", "6e0c")
		config := volume.Config{Name: "held", Path: t.TempDir() + "/held", Holder: "another agent"}
		var both [2]*volume.Pool
		for i := range both {
			var err error
			if both[i], err = volume.New(config); err != nil {
				t.Fatal(err)
			}
			if err := both[i].Open(); (err != nil) != (i == 1) {
				t.Fatal(err)
			}
			t.Cleanup(func() { both[i].Close() })
		}
		var err error
		if p.Pools, err = volume.NewPools(both[1]); err != nil {
			t.Fatal(err)
		}
		p.backends = []*backend{p.backend(backends.HostPath(p.Node, backends.Served{Dialect: contract.Own(false), Pools: both[1:]}))}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv-uid", Annotations: map[string]string{
			contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnPool: "6e0c", contract.AnnNodeUID: "new",
		}}}
		if before != "" {
			pv.Annotations[contract.AnnMissing] = before
		}
		pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: config.Path + "/pvc-1"}
		var patches []string
		setAnswer(t, p, func(r *http.Request) (int, any) {
			if r.Method == http.MethodPatch {
				text, _ := io.ReadAll(r.Body)
				patches = append(patches, string(text))
			}
			return http.StatusOK, pv
		})
		p.notOpen["6e0c"] = time.Now().Add(-reportAfter)
		if err := p.reportPool(t.Context(), pv); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(patches, " "); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("reported before: %q: patches %q, want %q", before, got, want)
		}
	}
}
