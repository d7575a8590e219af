package disks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/disk"
	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// newPV returns the PV of a device. Nothing owns it: the garbage collector would delete it with the
// object of its Node, which can be deleted by mistake and registered again, while a claim has it.
func newPV(name string, d disk.Device, s *spec, node *corev1.Node) *corev1.PersistentVolume {
	bytes := resource.NewQuantity(d.Bytes, resource.BinarySI)
	label := contract.LabelValue(node.Name)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{LabelNode: label, LabelNodeOlder: label},
			Annotations: s.annotations(),
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *bytes},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              s.class,
			VolumeMode:                    &s.mode,
			MountOptions:                  s.options,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: d.Path}},
			NodeAffinity:                  affinity(hostname(node)),
		},
	}
	pv.Annotations[contract.AnnNodeUID] = string(node.UID)
	start := ""
	if d.Start != 0 {
		start = strconv.FormatInt(d.Start, 10)
	}
	for name, value := range map[string]string{AnnStart: start, AnnDisk: d.Identity, AnnAttachment: d.Attachment,
		AnnBelow: below(d)} {
		if value != "" {
			pv.Annotations[name] = value
		}
	}
	if s.mode == corev1.PersistentVolumeFilesystem {
		pv.Spec.Local.FSType = &s.fsType
	}
	return pv
}

// below returns the value of AnnBelow.
func below(d disk.Device) string {
	own := diskid.Parse(d.Identity).Shared()
	return strings.Join(slices.DeleteFunc(d.Shared(), func(id string) bool { return id == own }), ",")
}

// hostname returns the hostname that a PV's node affinity has to require.
func hostname(node *corev1.Node) string { return cmp.Or(node.Labels[corev1.LabelHostname], node.Name) }

func affinity(hostname string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname},
		}},
	}}}}
}

// excludesNode reports whether a PV's node affinity excludes the node. It does not if it requires
// no hostname.
func excludesNode(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return false
	}
	return !slices.ContainsFunc(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		for _, e := range term.MatchExpressions {
			if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn {
				return slices.Contains(e.Values, hostname(node))
			}
		}
		return true
	})
}

// localPath returns the path of a PV on its node, "" if it has none.
func localPath(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.Local != nil:
		return pv.Spec.Local.Path
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path
	}
	return ""
}
