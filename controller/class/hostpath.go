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

// HostPathPV returns the PV of a volume that lies at path. Its capacity is the
// claim's request, its reclaim policy the class's unless policy is set. The
// caller adds the claimRef.
//
// The source has type Directory: where the directory is gone because its disk
// is not mounted, the pod must fail to start, not write to the disk below.
func HostPathPV(name, path string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	if policy == "" {
		policy = reclaimPolicy(c)
	}
	directory, mode := corev1.HostPathDirectory, corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{LabelNode: LabelValue(at.Node)},
			Annotations: map[string]string{
				AnnIdentity:        HostPathProvisioner,
				AnnProvisionOnNode: at.Node,
				AnnProvisionedBy:   c.Provisioner,
				AnnPool:            at.Pool,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()},
			MountOptions:                  c.MountOptions,
			StorageClassName:              Of(claim),
			VolumeMode:                    &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &directory},
			},
			NodeAffinity: affinity(at.Hostname),
		},
	}
}

func reclaimPolicy(c *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	if c.ReclaimPolicy == nil {
		return corev1.PersistentVolumeReclaimDelete
	}
	return *c.ReclaimPolicy
}

func affinity(hostname string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn,
				Values:   []string{hostname},
			}},
		}},
	}}
}

// Hostname returns the one hostname that the PV's affinity names, "" where it
// names none, several, or anything else besides.
func Hostname(pv *corev1.PersistentVolume) string {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.Required.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 1 || len(term.MatchFields) != 0 {
		return ""
	}
	e := term.MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0]
}
