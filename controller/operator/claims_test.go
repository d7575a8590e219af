package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
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
