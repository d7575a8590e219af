package capacity

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// Labels that the provisioner sidecar also sets; by their values everybody
// tells the objects of others from their own.
const (
	labelDriver    = "csi.storage.k8s.io/drivername"
	labelManagedBy = "csi.storage.k8s.io/managed-by"
)

// maxClass is how much of a class's name an object's name has. With the node,
// which is a label's value, and the hash the whole is shorter than the 253
// bytes that a name may have.
const maxClass = 150

// objectName is of the form <node>.<class>.<hash>: the first two are for people
// and the class may be cut, the hash tells apart what then looks the same.
func objectName(driver, node, class string) string {
	sum := sha256.Sum256([]byte(driver + "/" + node + "/" + class))
	class = strings.TrimRight(class[:min(len(class), maxClass)], ".-")
	return node + "." + class + "." + hex.EncodeToString(sum[:8])
}

// managedBy is the value of labelManagedBy for the objects of a node.
func managedBy(node string) string { return class.LabelValue("hostpath-provisioner-" + node) }

// labelsOf are the labels of the objects of a node. That of the node is what
// all agents' objects have and nobody else's.
func labelsOf(driver, node string) map[string]string {
	return map[string]string{
		labelDriver:     driver,
		labelManagedBy:  managedBy(node),
		class.LabelNode: class.LabelValue(node),
	}
}

// object is what should be published of a class. The maximum is the same as
// the capacity: a volume may take all that is left.
func (p *Publisher) object(class string, bytes int64) *storagev1.CSIStorageCapacity {
	o := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.config.Namespace,
			Name:      objectName(p.config.Driver, p.config.Node, class),
			Labels:    labelsOf(p.config.Driver, p.config.Node),
		},
		StorageClassName:  class,
		NodeTopology:      topologyOf(p.config.Node),
		Capacity:          resource.NewQuantity(bytes, resource.BinarySI),
		MaximumVolumeSize: resource.NewQuantity(bytes, resource.BinarySI),
	}
	if p.owner != nil {
		o.OwnerReferences = []metav1.OwnerReference{*p.owner}
	}
	return o
}

func topologyOf(node string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{class.TopologyNode: node}}
}

// sameKey reports whether two objects agree in what cannot be changed.
func sameKey(a, b *storagev1.CSIStorageCapacity) bool {
	return a.StorageClassName == b.StorageClassName && apiequality.Semantic.DeepEqual(a.NodeTopology, b.NodeTopology)
}

// sameBadges reports whether an object has the owner and the labels that it
// should have; further labels are others' business.
func sameBadges(o, want *storagev1.CSIStorageCapacity) bool {
	for key, value := range want.Labels {
		if v, ok := o.Labels[key]; !ok || v != value {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(o.OwnerReferences, want.OwnerReferences)
}

// bytesOf returns what an object says can be promised, -1 where its two numbers
// differ or are not there, which is not our doing.
func bytesOf(o *storagev1.CSIStorageCapacity) int64 {
	if o.Capacity == nil || o.MaximumVolumeSize == nil || o.Capacity.Cmp(*o.MaximumVolumeSize) != 0 {
		return -1
	}
	return o.Capacity.Value()
}

// merged is the object o, changed to what is wanted; o itself, which is in a
// cache, is not.
func merged(o, want *storagev1.CSIStorageCapacity) *storagev1.CSIStorageCapacity {
	o = o.DeepCopy()
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	maps.Copy(o.Labels, want.Labels)
	o.OwnerReferences = want.OwnerReferences
	o.Capacity, o.MaximumVolumeSize = want.Capacity, want.MaximumVolumeSize
	return o
}
