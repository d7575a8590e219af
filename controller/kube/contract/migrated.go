package contract

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxHandle is the CSI specification's limit on a volume handle, in bytes.
const MaxHandle = 128

// MigratedCSIPV returns the CSI PV that replaces a hostPath PV of this or another provisioner, on
// the same directory, named handle, in the pool of that name. It copies the old PV's claim, class,
// access modes, mount options, labels and annotations. The rest is as in CSIPV, except that there
// is no fsType: the kubelet must not change the owner of existing files to a pod's fsGroup.
//
// The policy is Retain until the migration is over; AnnPolicy has the final one.
func MigratedCSIPV(old *corev1.PersistentVolume, driver, handle, pool string, size resource.Quantity,
	at Place) *corev1.PersistentVolume {
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

// ReturnedHostPathPV returns the hostPath or local PV that replaces the CSI PV now on the way back.
// was is the PV before the migration. The result is was with the size, claim, class, access modes,
// labels and annotations of now. Pool and hostname may have changed since: it has the given path,
// and the node affinity that new PVs get, if was had one. With foreign, the agent does not manage
// the PV any more, and it gets no annotation of this provisioner except AnnReplaces.
func ReturnedHostPathPV(was, now *corev1.PersistentVolume, path string, at Place,
	foreign bool) *corev1.PersistentVolume {
	pv := successor(was, now, at)
	Relocate(pv, path, at)
	for _, key := range []string{AnnIdentity, AnnProvisionOnNode, AnnProvisionedBy} {
		if value, ok := was.Annotations[key]; ok {
			pv.Annotations[key] = value
		} else {
			delete(pv.Annotations, key)
		}
	}
	if foreign {
		delete(pv.Labels, LabelNode)
		delete(pv.Annotations, AnnPool)
		delete(pv.Annotations, AnnNodeUID)
		delete(pv.Annotations, AnnCluster)
	}
	pv.Spec.Capacity = now.Spec.Capacity.DeepCopy()
	// A retained PV may have been given to a claim of another class.
	pv.Spec.StorageClassName, pv.Spec.AccessModes = now.Spec.StorageClassName, slices.Clone(now.Spec.AccessModes)
	return pv
}

// Relocate sets the path of a hostPath or local PV, and the node affinity that new PVs
// get if it has one. It does nothing to other PVs.
func Relocate(pv *corev1.PersistentVolume, path string, at Place) {
	switch {
	case pv.Spec.HostPath != nil:
		pv.Spec.HostPath.Path = path
	case pv.Spec.Local != nil:
		pv.Spec.Local.Path = path
	default:
		return
	}
	if pv.Spec.NodeAffinity != nil {
		pv.Spec.NodeAffinity = affinity(corev1.LabelHostname, at.Hostname)
	}
}

// successor returns a PV with the spec of was and the metadata of now. It has no
// finalizers: the controllers that need theirs add them again.
func successor(was, now *corev1.PersistentVolume, at Place) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: now.Name, OwnerReferences: now.OwnerReferences,
			Labels:      with(now.Labels, LabelNode, LabelValue(at.Node)),
			Annotations: with(now.Annotations, AnnReplaces, string(now.UID)),
		},
		Spec: *was.Spec.DeepCopy(),
	}
	delete(pv.Annotations, corev1.LastAppliedConfigAnnotation)
	at.mark(pv.Annotations)
	if policy := Policy(now); policy != corev1.PersistentVolumeReclaimRetain {
		pv.Annotations[AnnPolicy] = string(policy)
	}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if pv.Spec.ClaimRef = now.Spec.ClaimRef.DeepCopy(); pv.Spec.ClaimRef != nil {
		pv.Spec.ClaimRef.ResourceVersion = ""
	}
	return pv
}

// Policy returns the PV's reclaim policy, during a migration the one that the PV gets at its end.
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
