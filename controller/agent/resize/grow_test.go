package resize

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// inPool finds the volume of every PV in one pool.
type inPool struct{ *volume.Pool }

func (p inPool) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	v, err := p.Get(pv.Name)
	return p.Pool, v, err
}

// A ResourceQuota counts what the volume has, also if claim and PV show the whole disk.
func TestAllocatedIsTheVolumes(t *testing.T) {
	for what, row := range map[string]struct {
		asks, shown, charged string // charged is the claim's allocatedResources before, "" for none
		volume               int64  // bytes of the volume before, 0 if they are not known
		resizing             bool   // the claim has a condition
		want                 string // allocatedResources afterwards, "" for none
		writes               bool
	}{
		"whole disk, grows":           {"10Mi", "251Gi", "", 5 << 20, false, "10Mi", true},
		"whole disk, grew before":     {"10Mi", "251Gi", "251Gi", 10 << 20, false, "10Mi", true},
		"whole disk, condition stays": {"10Mi", "251Gi", "", 10 << 20, true, "10Mi", true},
		"whole disk, never grew":      {"10Mi", "251Gi", "", 10 << 20, false, "", false},
		"whole disk, in step":         {"10Mi", "251Gi", "10Mi", 10 << 20, false, "10Mi", false},
		"request lowered":             {"8Mi", "10Mi", "10Mi", 10 << 20, false, "10Mi", false},
		"request lowered, condition":  {"8Mi", "10Mi", "10Mi", 10 << 20, true, "10Mi", true},
		"size not known":              {"10Mi", "251Gi", "251Gi", 0, false, "251Gi", false},
		"size not known, condition":   {"10Mi", "251Gi", "251Gi", 0, true, "10Mi", true},
		"request, grows":              {"10Mi", "5Mi", "", 5 << 20, false, "10Mi", true},
	} {
		t.Run(what, func(t *testing.T) {
			claim, pv := pair(row.asks, row.shown, row.shown)
			if row.charged != "" {
				claim.Status.AllocatedResources = storage(row.charged)
			}
			if row.resizing {
				claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue}}
			}
			pool := classtest.Pools(t).Named("legacy")
			spec := volume.Spec{Name: pv.Name, Bytes: row.volume, PV: pv.Name, Owner: record.Owner{Namespace: "ns", Name: "data", UID: "1"}}
			if err := os.Mkdir(filepath.Join(pool.Path(), pv.Name), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Adopt(spec); err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset(claim.DeepCopy(), pv.DeepCopy())
			recorder := events.New(client, "node-01")
			r, err := New(Config{Client: apitest.Listing(client), Node: "node-01", PVs: inPool{pool}, Events: recorder})
			if err != nil {
				t.Fatal(err)
			}
			r.claims, r.pvs = cache.NewStore(cache.MetaNamespaceKeyFunc), cache.NewStore(cache.MetaNamespaceKeyFunc)
			if err := errors.Join(r.claims.Add(contract.Slim(claim)), r.pvs.Add(pv)); err != nil {
				t.Fatal(err)
			}
			if err := r.sync(t.Context(), "ns/data"); err != nil {
				t.Fatal(err)
			}
			recorder.Close()
			writes := 0
			for _, a := range client.Actions() {
				if a.GetVerb() == "patch" && a.GetResource().Resource != "events" {
					writes++
				}
			}
			now, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if q, ok := now.Status.AllocatedResources[corev1.ResourceStorage]; ok {
				got = q.String()
			}
			if got != row.want || (writes > 0) != row.writes {
				t.Errorf("allocatedResources %q after %d writes, want %q; conditions %v", got, writes, row.want, now.Status.Conditions)
			}
		})
	}
}
