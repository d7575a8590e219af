package operator

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// The operator keeps little of tenants' claims, whether they are listed or watched, and all of the
// claims in its own namespace, which may be those of pools.
func TestClaimsAreKeptSlim(t *testing.T) {
	s := Settings{Namespace: "agents"}
	made := func(namespace string) *corev1.PersistentVolumeClaim {
		claim := classtest.Claim(namespace, "now", "", "x", strings.Repeat("y", 250<<10))
		claim.Namespace, claim.Labels = namespace, map[string]string{"pool": "a"}
		claim.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		return claim
	}
	listed, err := s.listClaims(t.Context(), apitest.Client(t, apitest.Objects("node-01", made("tenant"), made("agents"))))
	if err != nil || len(listed.Items) != 2 {
		t.Fatalf("%d claims, %v", len(listed.Items), err)
	}
	for i, namespace := range []string{"tenant", "agents"} {
		watched, err := s.slimClaim(made(namespace))
		if err != nil {
			t.Fatal(err)
		}
		for how, claim := range map[string]*corev1.PersistentVolumeClaim{"listed": &listed.Items[i], "watched": watched.(*corev1.PersistentVolumeClaim)} {
			large, own := claim.Size() > 1<<10, namespace == s.Namespace
			if claim.Namespace != namespace || large != own || (claim.Labels["pool"] == "a") != own || claim.ManagedFields != nil {
				t.Errorf("%s claim of namespace %s: %d bytes, labels %v", how, namespace, claim.Size(), claim.Labels)
			}
		}
	}
}

// No tenant's claim begins a pass.
func TestOthersCauseNoLoad(t *testing.T) {
	w := &wiring{Settings: Settings{Namespace: "ns"}}
	for namespace, want := range map[string]bool{"ns": true, "tenant": false} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"kubevirt.io.hostpath-provisioner/storagePool": "a-hpp"}}}
		if got := w.isClaim(claim); got != want {
			t.Errorf("a claim in namespace %s begins a pass: %v", namespace, got)
		}
	}
}

// cachedPV is one of 100 PVs of a node, as an agent makes it.
const cachedPV = `{"metadata":{"name":"pvc-%[1]036d","uid":"0b1c2d3e-0000-4000-8000-%[1]012d","resourceVersion":"%[1]d",
"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["external-provisioner.volume.kubernetes.io/finalizer","kubernetes.io/pv-protection"],
"labels":{"hostpath-provisioner.kubevirt.io/node":"worker-%[2]04d.example.com"},
"annotations":{"hostpath-provisioner.kubevirt.io/pool":"6e0c0000-0000-4000-8000-%[2]012d","hostpath-provisioner.kubevirt.io/node-uid":"aaaaaaaa-0000-4000-8000-%[2]012d",
"hostpath-provisioner.kubevirt.io/cluster":"bbbbbbbb-0000-4000-8000-000000000000","pv.kubernetes.io/provisioned-by":"kubevirt.io.hostpath-provisioner"},
"managedFields":[{"manager":"hostpath-provisioner","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{}}}}]},
"spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Delete","storageClassName":"hostpath-csi","volumeMode":"Filesystem",
"claimRef":{"kind":"PersistentVolumeClaim","namespace":"tenant-%[2]d","name":"data-postgres-%[1]d","uid":"cccccccc-0000-4000-8000-%[1]012d","apiVersion":"v1"},
"csi":{"driver":"%[3]s","volumeHandle":"pvc-%[1]036d","volumeAttributes":{"storagePool":"local","csi.storage.k8s.io/pv/name":"pvc-%[1]036d"}},
"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"topology.hostpath.csi/node","operator":"In","values":["worker-%[2]04d.example.com"]}]}]}}},
"status":{"phase":"Bound","lastPhaseTransitionTime":"2026-01-01T00:00:00Z"}}`

// The PVs of 1,000 nodes with 100 volumes each, of any driver, take less than half of the memory that the
// operator may have: garbage takes the other half.
func TestMemoryOfPVs(t *testing.T) {
	const n, most = 20000, 128 << 20 / 100_000
	for _, driver := range []string{"kubevirt.io.hostpath-provisioner", "rbd.csi.ceph.com"} {
		slim := slimPV(installed.NewSlimPVs())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]any, 0, n)
		for i := range n {
			pv := &corev1.PersistentVolume{}
			if err := json.Unmarshal(fmt.Appendf(nil, cachedPV, i, i/100, driver), pv); err != nil {
				t.Fatal(err)
			}
			o, err := slim(pv)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, o)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (after.HeapAlloc - before.HeapAlloc) / n
		t.Logf("a PV of driver %s takes %d bytes", driver, each)
		if runtime.KeepAlive(kept); each > most {
			t.Errorf("a PV of driver %s takes %d bytes, want at most %d", driver, each, most)
		}
	}
}

// PVs are listed and watched slim.
func TestPVsAreKeptSlim(t *testing.T) {
	made := &corev1.PersistentVolume{}
	if err := json.Unmarshal(fmt.Appendf(nil, cachedPV, 1, 1, "rbd.csi.ceph.com"), made); err != nil {
		t.Fatal(err)
	}
	made.Annotations["large"] = strings.Repeat("y", 250<<10)
	pvs := installed.NewSlimPVs()
	listed, err := listPVs(t.Context(), apitest.Client(t, apitest.Paths(map[string]any{"persistentvolumes": corev1.PersistentVolumeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeList"}, Items: []corev1.PersistentVolume{*made}}})), pvs)
	if err != nil || len(listed.Items) != 1 {
		t.Fatalf("%d PVs, %v", len(listed.Items), err)
	}
	options := Settings{Namespace: "agents"}.cached(pvs)
	for o, by := range options.ByObject {
		if _, ok := o.(*corev1.PersistentVolume); !ok {
			continue
		}
		watched, err := by.Transform(made)
		if err != nil {
			t.Fatal(err)
		}
		for how, pv := range map[string]*corev1.PersistentVolume{"listed": &listed.Items[0], "watched": watched.(*corev1.PersistentVolume)} {
			if pv.Size() > 2<<10 || pv.Name != made.Name {
				t.Errorf("%s: %d bytes of %s", how, pv.Size(), pv.Name)
			}
		}
		return
	}
	t.Error("the cache has no PVs")
}
