package capacity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// findOwner reads the owner of the objects, once a pass: the controller of the agent's
// pod, so that they stay while pods are replaced and are deleted with the controller. A
// pod without a controller owns them itself, because it will not be started again.
func (p *Publisher) findOwner(ctx context.Context) error {
	if p.config.Pod == "" || p.ownerRead {
		return p.ownerErr
	}
	p.ownerRead, p.ownerErr = true, nil
	pod, err := p.config.Client.CoreV1().Pods(p.config.Namespace).Get(ctx, p.config.Pod, metav1.GetOptions{})
	if err != nil {
		p.ownerErr = fmt.Errorf("read the agent's own pod %s/%s, whose controller owns the capacity objects: %w",
			p.config.Namespace, p.config.Pod, err)
		return p.ownerErr
	}
	p.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	if c := metav1.GetControllerOf(pod); c != nil {
		p.owner = &metav1.OwnerReference{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID}
	}
	// blockOwnerDeletion stays unset: an API server with the admission plugin
	// OwnerReferencesPermissionEnforcement requires a permission to set it.
	return nil
}

// sweep deletes the objects that a provisioner sidecar left for this driver and node. They
// would not be updated any more, and the scheduler uses the largest of all sizes. own are
// the names of this agent's objects. Objects with the label of agents are not read, and those for
// nodes that an autoscaler may add stay.
func (p *Publisher) sweep(ctx context.Context, own map[string]bool) error {
	found, err := p.api().List(ctx, metav1.ListOptions{
		LabelSelector:   labelDriver + "=" + p.config.Driver + ",!" + contract.LabelNode,
		ResourceVersion: "0", // the API server's cache is recent enough
	})
	if err != nil {
		return fmt.Errorf("list capacity objects of sidecars: %w", err)
	}
	for i := range found.Items {
		o := &found.Items[i]
		if contract.CapacityNode(o) != p.config.Node || own[o.Name] {
			continue
		}
		if err := p.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
