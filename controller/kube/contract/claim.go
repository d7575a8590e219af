package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Of returns the name of the claim's class, "" if it has none. The beta
// annotation takes precedence, as in Kubernetes itself.
func Of(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return ptr.Deref(claim.Spec.StorageClassName, "")
}

// Delayed reports whether the class binds with WaitForFirstConsumer.
func Delayed(c *storagev1.StorageClass) bool {
	return ptr.Deref(c.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer
}

// PublishedPool returns the pool of a class of the driver for which capacity is published. ok is
// false if it is of another driver, or binds immediately: the scheduler does not check capacity
// then.
//
// It ignores invalid parameters: without a capacity object the scheduler would report a lack of
// space, but with one the claim gets an event about the parameters.
func PublishedPool(c *storagev1.StorageClass, driver string) (pool string, ok bool) {
	if c.Provisioner != driver || !Delayed(c) {
		return "", false
	}
	return PoolName(c.Parameters), true
}

// CapacityNode returns the name of the node of a capacity object, "" if it is for no node that
// exists but for those that an autoscaler may add.
func CapacityNode(o *storagev1.CSIStorageCapacity) string {
	if o.NodeTopology == nil || OfTemplateNode(o) {
		return ""
	}
	return o.NodeTopology.MatchLabels[TopologyNode]
}

// OfTemplateNode reports whether a capacity object is for nodes that the cluster-autoscaler
// simulates, and so for none that exists.
func OfTemplateNode(o *storagev1.CSIStorageCapacity) bool {
	return o.NodeTopology != nil && o.NodeTopology.MatchLabels[LabelTemplateNode] == "true"
}

// Bytes returns the size that the claim requests; see WholeBytes.
func Bytes(claim *corev1.PersistentVolumeClaim) int64 {
	return WholeBytes(claim.Spec.Resources.Requests.Storage())
}

// NamesNode reports whether the user's annotation, not the scheduler, places the claim on a node.
func NamesNode(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[AnnProvisionOnNode] != ""
}

// PVName returns the name that the provisioner library gives to the claim's PV.
func PVName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// CheckCSI is CheckSupported for a class of the CSI driver, whose volumes may be copies of others.
func CheckCSI(claim *corev1.PersistentVolumeClaim) error {
	source, copies := CopiedClaim(claim)
	if !copies {
		return CheckSupported(claim, CSIModes)
	}
	if source.Namespace != claim.Namespace {
		return fmt.Errorf("the source of this claim is in namespace %q: a volume is copied only within its namespace; create "+
			"the claim there, or copy the data yourself", source.Namespace)
	}
	return checkDirectory(claim, CSIModes)
}

// CheckSupported returns nil if an empty directory on one node satisfies the claim
// in one of the access modes. Otherwise the error names the field, its value and
// the values that are supported; a retry does not change the result.
func CheckSupported(claim *corev1.PersistentVolumeClaim, modes []corev1.PersistentVolumeAccessMode) error {
	if err := checkDirectory(claim, modes); err != nil {
		return err
	}
	s := source(claim)
	if s == nil {
		return nil
	}
	if _, copies := CopiedClaim(claim); copies {
		return fmt.Errorf("dataSource %s %q is not supported by class %q, whose new volumes are empty: its agents lack the "+
			"capabilities that keep all attributes of files, do not see the pods that use the source, and enforce no quotas; "+
			"use claims of provisioner %s for both, or remove spec.dataSource and copy the data in", s.Kind, s.Name, Of(claim),
			CSIProvisioner)
	}
	return fmt.Errorf("dataSource %s %q is not supported: new volumes are empty; remove spec.dataSource and copy the "+
		"data in", s.Kind, s.Name)
}

// checkDirectory is CheckSupported without the data source.
func checkDirectory(claim *corev1.PersistentVolumeClaim, modes []corev1.PersistentVolumeAccessMode) error {
	if mode := claim.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return fmt.Errorf("volumeMode %s is not supported: volumes are directories; use volumeMode Filesystem", *mode)
	}
	if i := slices.IndexFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(modes, m)
	}); i >= 0 {
		return fmt.Errorf("access mode %s is not supported: a volume of class %q is a directory on one node; use %s",
			claim.Spec.AccessModes[i], Of(claim), orList(modes))
	}
	// Kubernetes binds such a claim only to a PV of the same attributes class.
	if name := claim.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		return fmt.Errorf("volumeAttributesClassName %q is not supported: a directory has no such attributes; "+
			"create the claim again without it", *name)
	}
	if claim.Spec.Selector != nil {
		return fmt.Errorf("spec.selector is not supported: it matches existing volumes only; " +
			"remove it, or name an existing PV in spec.volumeName")
	}
	return nil
}

// provisionerSources are the kinds of data sources that provisioners handle, by API
// group. Volume populators handle all other kinds.
var provisionerSources = map[string]string{"": "PersistentVolumeClaim", "snapshot.storage.k8s.io": "VolumeSnapshot"}

// Populated reports whether a volume populator handles the claim, which is so if its data source is
// not of a kind that provisioners handle. Provisioners ignore such a claim. The populator creates a
// claim of its own, fills that claim's volume, and binds its PV to the first claim.
func Populated(claim *corev1.PersistentVolumeClaim) bool {
	s := source(claim)
	return s != nil && provisionerSources[ptr.Deref(s.APIGroup, "")] != s.Kind
}

// SourceOf returns the kind and the name of the claim's data source, zero values if it has none.
func SourceOf(claim *corev1.PersistentVolumeClaim) (kind schema.GroupKind, name string) {
	s := source(claim)
	if s == nil {
		return kind, ""
	}
	return schema.GroupKind{Group: ptr.Deref(s.APIGroup, ""), Kind: s.Kind}, s.Name
}

// CopiedClaim returns the claim whose volume is to be copied for this one. ok is false if its data source
// is not a claim. Without permission of its owner the API server accepts no other namespace, and agents
// refuse one.
func CopiedClaim(claim *corev1.PersistentVolumeClaim) (from Named, ok bool) {
	s := source(claim)
	if s == nil || s.Kind != "PersistentVolumeClaim" || ptr.Deref(s.APIGroup, "") != "" {
		return Named{}, false
	}
	return Named{cmp.Or(ptr.Deref(s.Namespace, ""), claim.Namespace), s.Name}, true
}

// Named is the namespace and the name of an object.
type Named struct{ Namespace, Name string }

// String returns <namespace>/<name>.
func (n Named) String() string { return n.Namespace + "/" + n.Name }

// Copies reports whether an agent makes the claim's volume as a copy of another claim's, on the node
// that has that one: its data source is a claim, and c is a class of the CSI driver.
func Copies(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) bool {
	_, copied := CopiedClaim(claim)
	return copied && c != nil && DialectOf(c.Provisioner) == nil
}

// source returns the claim's data source, nil if it has none. dataSourceRef can
// name any kind, and the API server copies dataSource into it.
func source(claim *corev1.PersistentVolumeClaim) *corev1.TypedObjectReference {
	if s := claim.Spec.DataSourceRef; s != nil {
		return s
	}
	if s := claim.Spec.DataSource; s != nil {
		return &corev1.TypedObjectReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name}
	}
	return nil
}

func orList(modes []corev1.PersistentVolumeAccessMode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return strings.Join(words, " or ")
}

// DefaultClasses returns the names of the classes that are marked as the default. A claim that names no
// class gets the newest of them.
func DefaultClasses(classes []storagev1.StorageClass) (names []string) {
	for i := range classes {
		c := &classes[i]
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
			c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			names = append(names, c.Name)
		}
	}
	return names
}
