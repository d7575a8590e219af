package contract

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// keptAnnotations are the annotations that a claim gets when it is made again. Those of other
// programs are not among them: an importer, for example, would import over the data again.
var keptAnnotations = []string{AnnProvisionOnNode}

// Recorded returns what the record of a volume keeps of its PV and its claim, within
// record.MaxClaim.
func Recorded(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) *record.Claim {
	c := record.Claim{
		Provisioner: pv.Annotations[AnnProvisionedBy], Class: pv.Spec.StorageClassName,
		MountOptions: slices.Clone(pv.Spec.MountOptions),
		Request:      Bytes(claim), Labels: maps.Clone(claim.Labels),
	}
	for _, mode := range pv.Spec.AccessModes {
		c.AccessModes = append(c.AccessModes, string(mode))
	}
	if pv.Spec.CSI != nil {
		c.Provisioner, c.FSType = pv.Spec.CSI.Driver, pv.Spec.CSI.FSType
	}
	for _, key := range keptAnnotations {
		if value, ok := claim.Annotations[key]; ok {
			c.Annotations = with(c.Annotations, key, value)
		}
	}
	return c.Bounded()
}
