// Package applytest checks objects that are applied.
package applytest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
)

// Same reports objects that would differ from themselves when they are read again: every pass would
// write them.
func Same(t *testing.T, all []*unstructured.Unstructured, err error) {
	t.Helper()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d objects, %v", len(all), err)
	}
	cluster := fake.NewClientBuilder().Build()
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
