package templatenodes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	storageapply "k8s.io/client-go/applyconfigurations/storage/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// labelDriver is a label that agents and the provisioner sidecar set too. Their label
// csi.storage.k8s.io/managed-by is not set: agents remove what has their own value.
const labelDriver = "csi.storage.k8s.io/drivername"

// maxClass is the length to which nameOf truncates the class's name. With the rest the name is
// shorter than 253 bytes.
const maxClass = 150

// desired returns the objects of a resource, in the order of their names: one for each template node
// and each class of its pool that the scheduler checks. unused are the template nodes without a
// class. A resource that is deleted asks for none.
func desired(cr *v1beta1.HostPathProvisioner, classes []storagev1.StorageClass, namespace string,
	labels map[string]string) (all []*storagev1.CSIStorageCapacity, unused []string) {
	if cr.DeletionTimestamp != nil {
		return nil, nil
	}
	for _, t := range cr.Spec.TemplateNodes {
		found := false
		for i := range classes {
			pool, ok := contract.PublishedPool(&classes[i], contract.CSIProvisioner)
			if !ok || pool != t.Pool {
				continue
			}
			found = true
			o := object(&t, classes[i].Name)
			o.Namespace = namespace
			maps.Copy(o.Labels, labels)
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion().String(),
				Kind: "HostPathProvisioner", Name: cr.Name, UID: cr.UID}}
			all = append(all, o)
		}
		if !found {
			unused = append(unused, t.Name)
		}
	}
	slices.SortFunc(all, func(a, b *storagev1.CSIStorageCapacity) int { return cmp.Compare(a.Name, b.Name) })
	return all, unused
}

// object returns the object of a template node and a class. The maximum is the capacity, because
// one volume can use all space of a new node.
func object(t *v1beta1.TemplateNode, class string) *storagev1.CSIStorageCapacity {
	topology := map[string]string{contract.LabelTemplateNode: "true"}
	for key, value := range t.NodeSelector {
		topology[key] = string(value)
	}
	capacity, largest := t.Capacity.DeepCopy(), t.Capacity.DeepCopy()
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(t.Name, class, topology),
			Labels: map[string]string{labelDriver: contract.CSIProvisioner, labelTemplate: t.Name}},
		StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: topology},
		Capacity: &capacity, MaximumVolumeSize: &largest,
	}
}

// labelTemplate is the label of the objects, with the name of the template node.
const labelTemplate = "hostpath-provisioner.kubevirt.io/template-node"

// nameOf returns a name of the form template.<template node>.<class>.<hash>. The hash makes it
// unique if the class is truncated, and is another one for another topology, which cannot be
// changed.
func nameOf(template, class string, topology map[string]string) string {
	text, _ := json.Marshal([]any{template, class, topology}) // strings can be encoded, and keys are sorted
	sum := sha256.Sum256(text)
	class = strings.TrimRight(class[:min(len(class), maxClass)], ".-")
	return "template." + template + "." + class + "." + hex.EncodeToString(sum[:8])
}

// isOurs reports whether the operator made the object: it has its label, and is for templates only.
// It is true for no object of an agent, and for none that a user made.
func isOurs(o *storagev1.CSIStorageCapacity) bool {
	return o.Labels[labelTemplate] != "" && contract.OfTemplateNode(o)
}

// sameKey reports whether the fields that cannot be changed are the same.
func sameKey(a, b *storagev1.CSIStorageCapacity) bool {
	return a.StorageClassName == b.StorageClassName && apiequality.Semantic.DeepEqual(a.NodeTopology, b.NodeTopology)
}

// same reports whether the object has all that is wanted. Other labels and owners stay.
func same(want, have *storagev1.CSIStorageCapacity) bool {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			return false
		}
	}
	for _, ref := range want.OwnerReferences {
		if !slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == ref.UID }) {
			return false
		}
	}
	return sameKey(want, have) && apiequality.Semantic.DeepEqual(want.Capacity, have.Capacity) &&
		apiequality.Semantic.DeepEqual(want.MaximumVolumeSize, have.MaximumVolumeSize)
}

// toApply returns the fields of the object that the operator applies.
func toApply(o *storagev1.CSIStorageCapacity) *storageapply.CSIStorageCapacityApplyConfiguration {
	owner := o.OwnerReferences[0]
	return storageapply.CSIStorageCapacity(o.Name, o.Namespace).WithLabels(o.Labels).
		WithOwnerReferences(metaapply.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
			WithName(owner.Name).WithUID(owner.UID)).
		WithStorageClassName(o.StorageClassName).
		WithNodeTopology(metaapply.LabelSelector().WithMatchLabels(o.NodeTopology.MatchLabels)).
		WithCapacity(*o.Capacity).WithMaximumVolumeSize(*o.MaximumVolumeSize)
}
