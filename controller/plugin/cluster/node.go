package cluster

import (
	"cmp"
	"fmt"

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

// Renamed says, of a PV, that it requires a hostname which its node does not have; "" if it does not.
func Renamed(pv *corev1.PersistentVolume, n *corev1.Node) string {
	want, has := contract.Hostname(pv), n.Labels[corev1.LabelHostname]
	if want == "" || want == has {
		return ""
	}
	return fmt.Sprintf("requires the hostname %s, and node %s has %q: no pod with it can start", want, n.Name, has)
}

// SetBack is what to do about a node that Renamed is about.
const SetBack = "set the node's label " + corev1.LabelHostname + " back: see docs/troubleshooting.md"
