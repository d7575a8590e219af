package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The measure creates claims of its own alone, and deletes them by their label whatever happens.
func TestMeasure(t *testing.T) {
	for name, row := range map[string]struct {
		refuse  string // a verb
		keep    int    // how many lists have claims with their finalizer
		want    string
		deletes int
	}{
		"measured":      {keep: 2, deletes: 2},
		"may not":       {refuse: "create", want: "cannot create claims in the namespace shop", deletes: 1},
		"cannot delete": {refuse: "delete", want: "cannot delete the claims of the measure, which have the label " + measuredLabel, deletes: 2},
		"cannot list":   {refuse: "list", want: "cannot list the claims", deletes: 2},
		"interrupted":   {refuse: "interrupted", want: "cannot create claims", deletes: 1},
	} {
		deletes, lists := 0, 0
		ctx, interrupt := context.WithCancel(t.Context())
		client := fake.NewClientset()
		client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetNamespace() != "shop" || action.GetResource().Resource != "persistentvolumeclaims" {
				t.Errorf("%s: %v", name, action)
			}
			refused := false
			var object runtime.Object
			switch action.GetVerb() {
			case "create":
				claim := action.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolumeClaim)
				if refused, object = row.refuse == "create", claim; row.refuse == "interrupted" {
					interrupt()
					refused = true
				}
				if claim.Labels[measuredLabel] == "" || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != "" ||
					claim.Spec.Selector == nil || claim.Spec.Selector.MatchLabels[measuredLabel] != claim.Labels[measuredLabel] {
					t.Errorf("%s: it creates %+v", name, claim)
				}
			case "delete-collection":
				refused, deletes = row.refuse == "delete", deletes+1
				labelled(t, name, action.(clienttesting.ListAction).GetListRestrictions().Labels)
			case "list":
				labelled(t, name, action.(clienttesting.ListAction).GetListRestrictions().Labels)
				list := &corev1.PersistentVolumeClaimList{}
				if lists++; lists <= row.keep {
					list.Items = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{measuredLabel: "x"}}}}
				}
				refused, object = row.refuse == "list", list
			}
			if refused {
				return true, nil, errors.New("refused")
			}
			return true, object, nil
		})
		m := Measure(ctx, client, "shop")
		interrupt()
		switch {
		case !strings.Contains(m.Unknown, row.want) || row.want == "" && m.Unknown != "":
			t.Errorf("%s: unknown %q, want %q", name, m.Unknown, row.want)
		case deletes != row.deletes:
			t.Errorf("%s: %d deletions, want %d", name, deletes, row.deletes)
		case row.want == "" && (m.Claims != measuredClaims || m.Lag <= 0):
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func labelled(t *testing.T, name string, selector labels.Selector) {
	t.Helper()
	if !strings.HasPrefix(selector.String(), measuredLabel+"=") {
		t.Errorf("%s: the selector is %q", name, selector)
	}
}
