package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kinds are the kinds of the objects that the operator applies.
func Kinds() (all []*unstructured.Unstructured) {
	for _, kind := range append(slices.Clone(namespacedKinds), clusterKinds...) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(kind[0])
		o.SetKind(kind[1])
		all = append(all, o)
	}
	return all
}

var (
	namespacedKinds = [][2]string{{"v1", "ServiceAccount"}, {"apps/v1", "DaemonSet"}, {"apps/v1", "Deployment"},
		{"v1", "Service"},
		{"rbac.authorization.k8s.io/v1", "Role"}, {"rbac.authorization.k8s.io/v1", "RoleBinding"}}
	clusterKinds = [][2]string{{"storage.k8s.io/v1", "CSIDriver"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"}}
)

// Namespaced reports whether the object has a namespace.
func Namespaced(o *unstructured.Unstructured) bool {
	return slices.Contains(namespacedKinds, [2]string{o.GetAPIVersion(), o.GetKind()})
}
