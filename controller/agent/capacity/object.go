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

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Labels that the provisioner sidecar also sets. The values identify the creator.
const (
	labelDriver    = "csi.storage.k8s.io/drivername"
	labelManagedBy = "csi.storage.k8s.io/managed-by"
)

// maxClass is the length to which objectName truncates the class's name. With the node,
// which is at most 63 bytes, and the hash the result is shorter than 253 bytes.
const maxClass = 150

// objectName returns a name of the form <node>.<class>.<hash>. The hash makes it unique
// if the class is truncated.
func objectName(driver, node, class string) string {
	sum := sha256.Sum256([]byte(driver + "/" + node + "/" + class))
	class = strings.TrimRight(class[:min(len(class), maxClass)], ".-")
	return node + "." + class + "." + hex.EncodeToString(sum[:8])
}

func managedBy(node string) string { return contract.LabelValue("hostpath-provisioner-" + node) }

// labelsOf returns the labels of the objects of a node. Only agents set contract.LabelNode.
func labelsOf(driver, node string) map[string]string {
	return map[string]string{
		labelDriver:        driver,
		labelManagedBy:     managedBy(node),
		contract.LabelNode: contract.LabelValue(node),
	}
}

// object returns the object of a class. The maximum is the capacity, because one volume
// can use all available space.
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
	return &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: node}}
}

// sameKey reports whether the immutable fields of two objects are the same.
func sameKey(a, b *storagev1.CSIStorageCapacity) bool {
	return a.StorageClassName == b.StorageClassName && apiequality.Semantic.DeepEqual(a.NodeTopology, b.NodeTopology)
}

// sameMetadata reports whether an object has the wanted owner and labels. It ignores other labels.
func sameMetadata(o, want *storagev1.CSIStorageCapacity) bool {
	for key, value := range want.Labels {
		if v, ok := o.Labels[key]; !ok || v != value {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(o.OwnerReferences, want.OwnerReferences)
}

// bytesOf returns the size of an object, -1 if its two sizes differ or are missing, which
// this agent never writes.
func bytesOf(o *storagev1.CSIStorageCapacity) int64 {
	if o.Capacity == nil || o.MaximumVolumeSize == nil || o.Capacity.Cmp(*o.MaximumVolumeSize) != 0 {
		return -1
	}
	return contract.WholeBytes(o.Capacity)
}

// merged returns a copy of o with the wanted labels, owner and sizes.
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
