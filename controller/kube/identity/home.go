package identity

import (
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Home has the marks of a PV that name where its volume is. A mark that no agent recorded is "".
type Home struct {
	Node     string // the Node's name
	Hostname string // the label that the affinity of a hostPath PV requires; "" for a CSI PV
	NodeUID  string // of the Node whose agent last bound the volume
	Pool     string // the UUID of its pool
	Cluster  string // of the cluster whose agent last bound the volume
	Missing  string // the agent's report, as PoolMissing or VolumeIsMissing has it
}

// HomeOf returns the home of a PV. ok is false if the PV is not one of the provisioners', or names
// no node.
func HomeOf(pv *corev1.PersistentVolume) (h Home, ok bool) {
	a := pv.Annotations
	h = Home{NodeUID: a[contract.AnnNodeUID], Pool: a[contract.AnnPool], Cluster: a[contract.AnnCluster],
		Missing: a[contract.AnnMissing]}
	if pv.Spec.CSI != nil {
		h.Node = contract.TopologyOf(pv)
		return h, h.Node != "" && Provisioned(pv)
	}
	h.Node, h.Hostname = a[contract.AnnProvisionOnNode], contract.Hostname(pv)
	return h, h.Node != "" && h.Hostname != "" && Provisioned(pv)
}

// IsNode reports whether a Node with that UID may be the home.
func (h Home) IsNode(uid string) bool { return h.NodeUID == "" || h.NodeUID == uid }

// Provisioned reports whether a PV is one of the provisioners': it has the CSI driver, or is a
// hostPath PV that names the provisioner.
func Provisioned(pv *corev1.PersistentVolume) bool {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver == contract.CSIProvisioner
	}
	return pv.Annotations[contract.AnnProvisionedBy] == contract.HostPathProvisioner
}
