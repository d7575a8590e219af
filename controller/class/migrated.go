package class

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxHandle is how long a CSI volume's handle may be, in bytes, by the
// specification.
const MaxHandle = 128

// MigratedCSIPV returns the CSI PV that takes the place of a hostPath PV, ours or
// another provisioner's, on the same directory: handle is its name, pool the pool's. It has what the old one
// has, the claim, the class, modes and mount options, and other people's labels
// and annotations; the rest is as CSIPV has it. Only there is no fsType, so
// that no pod's fsGroup rewrites the files that are there.
//
// Its policy is Retain, and AnnPolicy says what it will be.
func MigratedCSIPV(old *corev1.PersistentVolume, driver, handle, pool string, size resource.Quantity, at Place) *corev1.PersistentVolume {
	pv := successor(old, old, at)
	delete(pv.Annotations, AnnIdentity)
	delete(pv.Annotations, AnnProvisionOnNode)
	pv.Annotations[AnnProvisionedBy] = driver
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{
			Driver:           driver,
			VolumeHandle:     handle,
			VolumeAttributes: map[string]string{StoragePool: pool},
		},
	}
	pv.Spec.NodeAffinity = affinity(TopologyNode, at.Node)
	return pv
}

// ReturnedHostPathPV returns the hostPath PV that takes the place of the CSI PV
// which once took its own: as it was then, with the size, the claim, and other
// people's labels and annotations, that the CSI PV has now. One of another
// provisioner carries nothing of ours but the UID that it replaces: nobody here
// looks after it any more.
func ReturnedHostPathPV(was, now *corev1.PersistentVolume, at Place) *corev1.PersistentVolume {
	pv := successor(was, now, at)
	for _, key := range []string{AnnIdentity, AnnProvisionOnNode, AnnProvisionedBy} {
		if value, ok := was.Annotations[key]; ok {
			pv.Annotations[key] = value
		} else {
			delete(pv.Annotations, key)
		}
	}
	if OfOther(was) {
		delete(pv.Labels, LabelNode)
		delete(pv.Annotations, AnnPool)
	}
	pv.Spec.Capacity = now.Spec.Capacity.DeepCopy()
	return pv
}

// successor is a PV like was that takes the place of now. It has no finalizers:
// those who set them set them anew.
func successor(was, now *corev1.PersistentVolume, at Place) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: now.Name, OwnerReferences: now.OwnerReferences,
			Labels: with(now.Labels, LabelNode, LabelValue(at.Node)), Annotations: with(now.Annotations, AnnReplaces, string(now.UID)),
		},
		Spec: *was.Spec.DeepCopy(),
	}
	delete(pv.Annotations, corev1.LastAppliedConfigAnnotation)
	pv.Annotations[AnnPool] = at.Pool
	if policy := Policy(now); policy != corev1.PersistentVolumeReclaimRetain {
		pv.Annotations[AnnPolicy] = string(policy)
	}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if pv.Spec.ClaimRef = now.Spec.ClaimRef.DeepCopy(); pv.Spec.ClaimRef != nil {
		pv.Spec.ClaimRef.ResourceVersion = ""
	}
	return pv
}

// Policy returns the reclaim policy that a PV has, or will have once a migration
// is over.
func Policy(pv *corev1.PersistentVolume) corev1.PersistentVolumeReclaimPolicy {
	if later := pv.Annotations[AnnPolicy]; later != "" {
		return corev1.PersistentVolumeReclaimPolicy(later)
	}
	return pv.Spec.PersistentVolumeReclaimPolicy
}

func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
