package cluster

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// NodesOf returns a function that returns the name of a PV's node, "" if the PV names none that is
// known.
func NodesOf(nodes List[corev1.Node]) func(*corev1.PersistentVolume) string {
	byHostname := map[string]string{}
	for _, n := range nodes.Items {
		if h := n.Labels[corev1.LabelHostname]; h != "" {
			byHostname[h] = n.Name
		}
	}
	return func(pv *corev1.PersistentVolume) string {
		return cmp.Or(contract.TopologyOf(pv), byHostname[contract.Hostname(pv)], pv.Annotations[contract.AnnProvisionOnNode])
	}
}
