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

// ChosenNode returns the node that was chosen for a claim of a provisioner, and the annotation that
// names it; both are "" if there is none. A provisioner that has no annotation of users, such as
// rancher.io/local-path, and one that is not known ("") leave the choice to the scheduler.
func ChosenNode(claim *corev1.PersistentVolumeClaim, provisioner string) (node, by string) {
	keys := []string{contract.AnnSelectedNode}
	if d := DialectOf(provisioner); d != nil && d.ByAnnotation {
		keys = []string{contract.AnnProvisionOnNode, contract.AnnSelectedNode}
	}
	for _, key := range keys {
		if node := claim.Annotations[key]; node != "" {
			return node, key
		}
	}
	return "", ""
}

// DialectOf returns the dialect of a provisioner that makes hostPath PVs, nil for another one.
func DialectOf(provisioner string) *contract.Dialect {
	if provisioner == contract.HostPathProvisioner {
		own := contract.Own(false)
		return &own
	}
	if others, err := contract.ParseProvisioners(provisioner); err == nil && len(others) > 0 {
		return &others[0]
	}
	return nil
}
