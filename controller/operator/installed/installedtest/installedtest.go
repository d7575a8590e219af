// Package installedtest has readers of installations for the tests of the operator's parts.
package installedtest

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Beside returns a reader in a cluster with an installation in the other namespace, "" for none.
func Beside(other string) installed.Reader {
	build := fake.NewClientBuilder()
	if other != "" {
		build = build.WithObjects(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: installed.BindingName},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: installed.BindingName, Namespace: other}}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "operator",
				Labels: map[string]string{"name": "hostpath-provisioner-operator"}}})
	}
	c := build.Build()
	return installed.Reader{Namespace: "agents", Cache: c, Live: c}
}
