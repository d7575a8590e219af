package contract

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// keptAnnotations are the annotations that a claim gets when it is made again. Those of other
// programs are not among them: an importer, for example, would import over the data again.
var keptAnnotations = []string{AnnProvisionOnNode}

// IsKept reports whether a claim that is made again may have an annotation.
func IsKept(key string) bool { return slices.Contains(keptAnnotations, key) }

// Recorded returns what the record of a volume keeps of its PV, its claim and the UID of the claim's
// namespace, within record.MaxClaim.
func Recorded(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, namespaceUID string) *record.Claim {
	c := record.Claim{
		Provisioner: pv.Annotations[AnnProvisionedBy], Class: pv.Spec.StorageClassName,
		MountOptions: slices.Clone(pv.Spec.MountOptions),
		Request:      Bytes(claim), Labels: maps.Clone(claim.Labels),
		Created: claim.CreationTimestamp.UTC(), NamespaceUID: namespaceUID,
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

// Restore gives a claim that is made again what was recorded of the former one: class, access modes,
// request, labels and annotations. It does nothing without a record of it, and sets nothing that the
// record omits.
func Restore(claim *corev1.PersistentVolumeClaim, c *record.Claim) {
	if c == nil {
		return
	}
	if class := c.Class; !slices.Contains(c.Omitted, "class") {
		claim.Spec.StorageClassName = &class // "" too, or admission adds the default class
	}
	if len(c.AccessModes) > 0 {
		claim.Spec.AccessModes = nil
		for _, mode := range c.AccessModes {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	if c.Request > 0 {
		claim.Spec.Resources.Requests = corev1.ResourceList{
			corev1.ResourceStorage: *resource.NewQuantity(c.Request, resource.BinarySI)}
	}
	claim.Labels, claim.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
}

// RestorePV gives a PV that is made again what was recorded of the former one and its class may not
// have, or have otherwise: mount options, and the filesystem type of the same provisioner's.
func RestorePV(pv *corev1.PersistentVolume, c *record.Claim) {
	if c == nil {
		return
	}
	if !slices.Contains(c.Omitted, "mountOptions") {
		pv.Spec.MountOptions = slices.Clone(c.MountOptions)
	}
	if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == c.Provisioner && !slices.Contains(c.Omitted, "fsType") {
		pv.Spec.CSI.FSType = c.FSType
	}
}
