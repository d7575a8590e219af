package install

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// The agents and the holders have the pull secrets of the operator's Deployment, also after these change.
func TestPullSecrets(t *testing.T) {
	o := installedOn(t, "n1")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.OperatorName}}
	d.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	o.add(d)
	want := func(names ...string) {
		t.Helper()
		o.passed()
		set, err := o.installed().DaemonSet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holder := &appsv1.Deployment{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "hpp-pool-b-n1"}, holder); err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string][]corev1.LocalObjectReference{"agents": set.Spec.Template.Spec.ImagePullSecrets,
			"holder": holder.Spec.Template.Spec.ImagePullSecrets} {
			if len(got) != len(names) || len(names) > 0 && got[0].Name != names[0] {
				t.Errorf("%s: %v, want %v", what, got, names)
			}
		}
	}
	want("registry")
	if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.ImagePullSecrets[0].Name = "another"
	if err := o.client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	want("another")
}
