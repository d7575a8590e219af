package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The annotation of users chooses the node for the provisioners that have it alone.
func TestChosenNode(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Annotations = map[string]string{contract.AnnProvisionOnNode: "asked", contract.AnnSelectedNode: "scheduled"}
	for provisioner, want := range map[string]string{contract.HostPathProvisioner: "asked", contract.SingleNodeProvisioner: "asked",
		contract.LocalPathProvisioner: "scheduled", contract.CSIProvisioner: "scheduled", "other": "scheduled", "": "scheduled"} {
		if node, _ := ChosenNode(claim, provisioner); node != want {
			t.Errorf("%s: %s, want %s", provisioner, node, want)
		}
	}
	delete(claim.Annotations, contract.AnnSelectedNode)
	if node, by := ChosenNode(claim, contract.LocalPathProvisioner); node != "" || by != "" {
		t.Errorf("%s by %s", node, by)
	}
}
