package operator

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

// What is applied does not differ when it is read again: otherwise every pass would write it.
func TestAppliedIsTheSame(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"},
		Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}}
	s := Settings{Namespace: "ns", Monitoring: "monitoring", Image: "image:v1"}
	var all []*unstructured.Unstructured
	for name, made := range map[string]func() ([]*unstructured.Unstructured, error){
		"agents":      func() ([]*unstructured.Unstructured, error) { return s.desired(cr, plan{Layout: layout.Of(cr)}) },
		"webhook":     func() ([]*unstructured.Unstructured, error) { return s.webhook(cr) },
		"monitoring":  func() ([]*unstructured.Unstructured, error) { return s.monitored(cr) },
		"constraints": func() ([]*unstructured.Unstructured, error) { return s.constraints(cr) },
	} {
		objects, err := made()
		if err != nil || len(objects) == 0 {
			t.Fatalf("%s: %d objects, %v", name, len(objects), err)
		}
		all = slices.Concat(all, objects)
	}
	cluster := fake.NewClientBuilder().WithScheme(kinds(t)).Build()
	applier := apply.New(cluster, nil, nil)
	for _, want := range all {
		if err := apply.Seal(want); err != nil {
			t.Fatal(err)
		}
		text, err := want.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		have := &unstructured.Unstructured{}
		if err := have.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Create(t.Context(), have); err != nil {
			t.Fatal(err)
		}
		want.SetAnnotations(nil)
		if differs, err := applier.Differs(t.Context(), want); differs || err != nil {
			t.Errorf("%s %s differs from itself as it is read: %v", want.GetKind(), want.GetName(), err)
		}
	}
}
