package install

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// A pass reads the objects of the agents from the caches whose changes begin a pass: another cache
// of the same objects may be behind at the last change, and nothing would begin the pass that sees
// it.
func TestReadsWhatIsWatched(t *testing.T) {
	known := kinds(t)
	watched := map[schema.GroupVersionKind]bool{}
	for _, o := range apply.Kinds() {
		watched[o.GroupVersionKind()] = true
	}
	read := map[string]bool{}
	check := func(o runtime.Object) {
		kind, err := apiutil.GVKForObject(o, known)
		if err != nil {
			t.Error(err)
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		read[kind.Kind] = true
		if _, generic := o.(runtime.Unstructured); watched[kind] && !generic {
			t.Errorf("%s is read as %T, from a cache that nothing watches", kind.Kind, o)
		}
	}
	pass := passes(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			check(o)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			check(list)
			return c.List(ctx, list, opts...)
		},
	})
	for range 3 {
		pass()
	}
	if !read["DaemonSet"] || !read["Pod"] {
		t.Errorf("only %v were read", read)
	}
}

// kinds are those that the operator reads and writes.
func kinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	return known
}

// passes returns a pass of the operator over the objects and a resource with one pool. A pass
// returns the resource's status.
func passes(t *testing.T, between interceptor.Funcs, objects ...client.Object) func() v1beta1.HostPathProvisionerStatus {
	t.Helper()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"},
		Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}}
	through := fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(append(objects, cr)...).WithStatusSubresource(cr).
		WithInterceptorFuncs(between).Build()
	s := Settings{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1", Version: "v1"}
	r := New(s, through, through, events.NewFakeRecorder(1000), tlsprofile.New(tlsprofile.Profile{}), time.Now)
	return func() v1beta1.HostPathProvisionerStatus {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: cr.Name}}); err != nil {
			t.Fatal(err)
		}
		var now v1beta1.HostPathProvisioner
		if err := through.Get(t.Context(), client.ObjectKeyFromObject(cr), &now); err != nil {
			t.Fatal(err)
		}
		return now.Status
	}
}
