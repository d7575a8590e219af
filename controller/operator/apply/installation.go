package apply

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// Installation is what the objects of one installation have in common.
type Installation struct {
	// Namespace is that of the operator, and of the agents.
	Namespace string
	// PartOf and Installer are the values of the labels app.kubernetes.io/part-of and
	// app.kubernetes.io/version; the second may be empty.
	PartOf, Installer string
}

// Labels returns those of every object that the operator makes.
func (i Installation) Labels() map[string]string {
	labels := map[string]string{"k8s-app": "hostpath-provisioner", ManagedBy: Owner,
		"app.kubernetes.io/component": "storage", "app.kubernetes.io/part-of": i.PartOf}
	if i.Installer != "" {
		labels["app.kubernetes.io/version"] = i.Installer
	}
	return labels
}

// Own sets the object's namespace, labels and owner. Objects without a namespace have no owner:
// they are deleted in an order of their own.
func (i Installation) Own(o *unstructured.Unstructured, cr *v1beta1.HostPathProvisioner) {
	labels := i.Labels()
	for key, value := range o.GetLabels() {
		if _, ours := labels[key]; !ours {
			labels[key] = value
		}
	}
	o.SetLabels(labels)
	if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found {
		for _, subject := range subjects {
			subject.(map[string]any)["namespace"] = i.Namespace
		}
		o.Object["subjects"] = subjects
	}
	if hooks, found, _ := unstructured.NestedSlice(o.Object, "webhooks"); found {
		for _, hook := range hooks {
			// agent.yaml has it
			_ = unstructured.SetNestedField(hook.(map[string]any), i.Namespace, "clientConfig", "service", "namespace")
		}
		o.Object["webhooks"] = hooks
	}
	if o.GetNamespace() == "" {
		return
	}
	o.SetNamespace(i.Namespace)
	o.SetOwnerReferences(OwnedBy(cr))
}

// OwnedBy returns the owner of an object that goes when the resource has gone.
func OwnedBy(cr *v1beta1.HostPathProvisioner) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion().String(), Kind: "HostPathProvisioner", Name: cr.Name, UID: cr.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}
