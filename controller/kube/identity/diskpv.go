package identity

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// DiskLabel returns the label with the node of a raw disk's PV, "" if the PV is of something else.
func DiskLabel(pv *corev1.PersistentVolume) string {
	if pv.Spec.Local == nil {
		return ""
	}
	return cmp.Or(pv.Labels[contract.LabelDiskOlder], pv.Labels[contract.LabelDisk])
}

// DiskHome returns the home of a raw disk's PV. ok is false if the PV is of something else, or if its
// label is a hash, which names no node.
func DiskHome(pv *corev1.PersistentVolume) (h Home, ok bool) {
	h = Home{Node: DiskLabel(pv), Hostname: contract.Hostname(pv), NodeUID: DiskNodeUID(pv),
		Cluster: pv.Annotations[contract.AnnCluster]}
	return h, h.Node != "" && !strings.HasPrefix(h.Node, contract.HashedLabel)
}

// DiskNodeUID returns the UID of the Node that made a raw disk's PV: that of its owner, which PVs of
// older versions have, or the annotated one; "" if neither is there.
func DiskNodeUID(pv *corev1.PersistentVolume) string {
	return cmp.Or(DiskOwner(pv), pv.Annotations[contract.AnnNodeUID])
}

// DiskOwner returns the UID of the Node that owns a PV, "" if none does.
func DiskOwner(pv *corev1.PersistentVolume) string {
	for _, owner := range pv.OwnerReferences {
		if owner.Kind == "Node" {
			return string(owner.UID)
		}
	}
	return ""
}

// DiskIsFree reports whether a raw disk's PV waits for a claim, has none and never had one, so that
// no tenant has data on its disk. A PV that lost its claimRef to an administrator is meant for
// another claim, with its data.
func DiskIsFree(pv *corev1.PersistentVolume) bool {
	phase := pv.Status.Phase
	waits := phase == corev1.VolumeAvailable || phase == corev1.VolumePending || phase == ""
	return waits && pv.Spec.ClaimRef == nil && pv.Annotations[contract.AnnBoundByController] == "" &&
		pv.Annotations[contract.AnnHeldPool] == ""
}
