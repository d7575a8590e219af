package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// NodeOf returns the name of a PV's node, "" if the PV names none that is known.
func NodeOf(pv *corev1.PersistentVolume, nodes List[corev1.Node]) string {
	if name := contract.TopologyOf(pv); name != "" {
		return name
	}
	hostname := contract.Hostname(pv)
	if n := nodes.Find(func(n *corev1.Node) bool {
		return hostname != "" && n.Labels[corev1.LabelHostname] == hostname
	}); n != nil {
		return n.Name
	}
	return pv.Annotations[contract.AnnProvisionOnNode]
}
