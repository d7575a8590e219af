package identity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// A PV has a home only if it is one of the provisioners', and its marks name a node.
func TestHomeOf(t *testing.T) {
	pv := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{}
		pv.Annotations = map[string]string{contract.AnnNodeUID: "u", contract.AnnPool: "p", contract.AnnCluster: "c", contract.AnnMissing: "pool/u"}
		change(pv)
		return pv
	}
	requires := func(pv *corev1.PersistentVolume, label, value string) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}
	}
	hostPath := func(by, node, hostname string) *corev1.PersistentVolume {
		return pv(func(pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionedBy], pv.Annotations[contract.AnnProvisionOnNode] = by, node
			if hostname != "" {
				requires(pv, corev1.LabelHostname, hostname)
			}
		})
	}
	csi := func(driver, node string) *corev1.PersistentVolume {
		return pv(func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
			pv.Annotations[contract.AnnProvisionedBy] = contract.HostPathProvisioner // proves nothing on a CSI PV
			if node != "" {
				requires(pv, contract.TopologyNode, node)
			}
		})
	}
	marks := Home{NodeUID: "u", Pool: "p", Cluster: "c", Missing: "pool/u"}
	for name, row := range map[string]struct {
		pv             *corev1.PersistentVolume
		provisioned    bool
		node, hostname string
		ok             bool
	}{
		"hostPath":                     {hostPath(contract.HostPathProvisioner, "n", "h"), true, "n", "h", true},
		"hostPath without affinity":    {hostPath(contract.HostPathProvisioner, "n", ""), true, "n", "", false},
		"hostPath without annotation":  {hostPath(contract.HostPathProvisioner, "", "h"), true, "", "h", false},
		"hostPath of another":          {hostPath("someone", "n", "h"), false, "n", "h", false},
		"CSI":                          {csi(contract.CSIProvisioner, "n"), true, "n", "", true},
		"CSI without a node":           {csi(contract.CSIProvisioner, ""), true, "", "", false},
		"CSI of another driver":        {csi("other.driver", "n"), false, "n", "", false},
		"hostPath of the CSI's driver": {hostPath(contract.CSIProvisioner, "n", "h"), false, "n", "h", false},
	} {
		want := marks
		want.Node, want.Hostname = row.node, row.hostname
		if got, ok := HomeOf(row.pv); got != want || ok != row.ok || Provisioned(row.pv) != row.provisioned {
			t.Errorf("%s: %+v %v, provisioned %v, want %+v %v, %v", name, got, ok, Provisioned(row.pv), want, row.ok, row.provisioned)
		}
	}
	for uid, want := range map[string]bool{"u": true, "other": false} {
		if marks.IsNode(uid) != want || !(Home{}).IsNode(uid) {
			t.Errorf("Node %s: %v, want %v, and any for a PV without the mark", uid, marks.IsNode(uid), want)
		}
	}
}
