package class

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Place is the node a volume lies on.
type Place struct {
	Node     string // the Node's name
	Hostname string // its kubernetes.io/hostname label, which may differ
	Pool     string // the pool's UUID
}

// ReclaimPolicy returns the reclaim policy of new PVs: the one given, where it
// is empty the class's, and Delete where the class has none either.
func ReclaimPolicy(given corev1.PersistentVolumeReclaimPolicy, c *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	switch {
	case given != "":
		return given
	case c.ReclaimPolicy != nil:
		return *c.ReclaimPolicy
	}
	return corev1.PersistentVolumeReclaimDelete
}

// Released reports whether the PV's claim was deleted. A PV is Failed if its
// deletion failed after that.
func Released(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

// Leaving reports whether the PV is deleted, or is to be deleted by its policy
// because its claim was.
func Leaving(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp != nil ||
		Released(pv) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// newPV is what the PVs of both shapes have in common: the claim's size, modes
// and class, our label and the pool's UUID.
func newPV(name string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{LabelNode: LabelValue(at.Node)},
			Annotations: map[string]string{AnnPool: at.Pool},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()},
			StorageClassName:              Of(claim),
			VolumeMode:                    &mode,
		},
	}
}

// affinity lets in the nodes whose label has that one value.
func affinity(label, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      label,
				Operator: corev1.NodeSelectorOpIn,
				Values:   []string{value},
			}},
		}},
	}}
}

// ClaimUID returns the UID of the claim that the PV names, "" if it names none.
func ClaimUID(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return string(pv.Spec.ClaimRef.UID)
}

// Hostname returns the one hostname that the PV's affinity names, "" where it
// names none, several, or anything else besides. A hostPath PV names one.
func Hostname(pv *corev1.PersistentVolume) string { return onlyValue(pv, corev1.LabelHostname) }

// TopologyOf returns the one node that the PV's affinity names by the driver's
// topology key, "" as Hostname does. A CSI PV names one.
func TopologyOf(pv *corev1.PersistentVolume) string { return onlyValue(pv, TopologyNode) }

// onlyValue returns the label's value where the PV's affinity is just
// that: this label, with one value.
func onlyValue(pv *corev1.PersistentVolume, label string) string {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.Required.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 1 || len(term.MatchFields) != 0 {
		return ""
	}
	e := term.MatchExpressions[0]
	if e.Key != label || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0]
}
