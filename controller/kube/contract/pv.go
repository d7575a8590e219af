package contract

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Place is the location of a volume.
type Place struct {
	Node     string   // the Node's name
	Hostname string   // its kubernetes.io/hostname label, which may differ
	Former   []string // hostnames that the label had before, by the administrator's word
	NodeUID  string   // the Node's UID, "" if unknown
	Cluster  string   // the UID of the cluster, "" if unknown
	Pool     string   // the pool's UUID
}

// names returns the values by which provisioners name the node, or did. An older provisioner wrote
// the node's name in an affinity to the hostname.
func (p Place) names() []string { return append([]string{p.Node, p.Hostname}, p.Former...) }

// IsNamed reports whether a hostname is the node's, was, or is its name.
func (p Place) IsNamed(hostname string) bool {
	return hostname != "" && slices.Contains(p.names(), hostname)
}

// ReclaimPolicy returns the reclaim policy of a new PV: the given one, or if that is
// empty the class's, or Delete.
func ReclaimPolicy(given corev1.PersistentVolumeReclaimPolicy,
	c *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	return cmp.Or(given, ptr.Deref(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete))
}

// Released reports whether the PV's claim was deleted. A PV is Failed if its deletion failed.
func Released(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

// Leaving reports whether the PV is being deleted, or will be because its claim was
// deleted and its policy is Delete.
func Leaving(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp != nil ||
		Released(pv) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// ToDropFinalizer is the command that takes the agent's finalizer from a PV, and leaves those of others: what
// else holds the PV, such as Kubernetes while a claim is bound to it, goes on to.
func ToDropFinalizer(pv string) string {
	return fmt.Sprintf(`kubectl patch pv %s -p '{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}'`, pv, Finalizer)
}

// HasFinalizer reports whether the PV has the finalizer of the provisioner library, so that a deleted one is
// there until its volume is gone.
func HasFinalizer(pv *corev1.PersistentVolume) bool { return slices.Contains(pv.Finalizers, Finalizer) }

// newPV returns the part of a PV that is the same for both backends: the claim's
// size, modes and class, the node's label and UID, the pool's UUID and the cluster's UID.
func newPV(name string, claim *corev1.PersistentVolumeClaim, at Place,
	policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	annotations := map[string]string{}
	at.mark(annotations)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelNode: LabelValue(at.Node)},
			Annotations: annotations},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()},
			StorageClassName:              Of(claim),
			VolumeMode:                    new(corev1.PersistentVolumeFilesystem),
		},
	}
}

// mark writes the UIDs of pool, Node and cluster, as far as they are known, so that the agent need
// not write the new PV again.
func (p Place) mark(annotations map[string]string) {
	annotations[AnnPool] = p.Pool
	for key, uid := range map[string]string{AnnNodeUID: p.NodeUID, AnnCluster: p.Cluster} {
		if uid != "" {
			annotations[key] = uid
		}
	}
}

// affinity returns a required affinity to the nodes whose label has the value.
func affinity(label, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn,
				Values: []string{value}}},
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

// Hostname returns the hostname that the PV's affinity requires, "" if the affinity
// is anything but one hostname. That of a hostPath PV is one hostname.
func Hostname(pv *corev1.PersistentVolume) string { return onlyValue(pv, corev1.LabelHostname) }

// TopologyOf returns the node that the PV's affinity requires by the driver's
// topology key, "" if the affinity is anything else. That of a CSI PV is one node.
func TopologyOf(pv *corev1.PersistentVolume) string { return onlyValue(pv, TopologyNode) }

// otherAffinity returns the label of which the PV's affinity requires one value and nothing else, ""
// if that is the hostname or the affinity is anything else.
func otherAffinity(pv *corev1.PersistentVolume) string {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 ||
		len(a.Required.NodeSelectorTerms[0].MatchExpressions) != 1 {
		return ""
	}
	key := a.Required.NodeSelectorTerms[0].MatchExpressions[0].Key
	if key == corev1.LabelHostname || onlyValue(pv, key) == "" {
		return ""
	}
	return key
}

// onlyValue returns the value of the label if the PV's affinity requires one value
// of this label and nothing else, and otherwise "".
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

// maxDirectory is NAME_MAX of Linux, in bytes.
const maxDirectory = 255

// Directory returns the name of a new volume's directory: the PV's name, or <claim>-<PV> with
// prefix. It truncates the claim's name to fit maxDirectory, never the PV's name, which makes the
// result unique. An existing volume's name is in its record; do not compute it again.
func Directory(pv, claim string, prefix bool) string {
	if !prefix {
		return pv
	}
	return truncate(claim, maxDirectory-len(pv)-1) + "-" + pv
}

func truncate(name string, most int) string { return name[:min(len(name), most)] }

var (
	provisioned = regexp.MustCompile(`^(?:.+-)?(pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_.+_.+)?$`)
	inline      = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)
)

// Provisioned reports whether a directory's name is one that provisioners or kubelets generate:
// pvc-<UID>, with or without the claim's name before or after it, or the handle of an ephemeral
// inline volume. pv is the name of the directory's PV, "" for an inline volume, which has no PV.
func Provisioned(directory string) (pv string, is bool) {
	if m := provisioned.FindStringSubmatch(directory); m != nil {
		return m[1], true
	}
	return "", inline.MatchString(directory)
}

// Contains reports whether an element of the path is the directory's name.
func Contains(path, directory string) bool {
	return slices.Contains(strings.Split(path, "/"), directory)
}
