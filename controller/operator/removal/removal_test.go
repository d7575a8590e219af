package removal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// pod is a pod on a node, with one volume.
func pod(name string, phase corev1.PodPhase, volume corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{{Name: "data", VolumeSource: volume}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func inline(driver string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}
}

func claim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func pv(claim, driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + claim}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: claim},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}},
	}}
}

func TestCheck(t *testing.T) {
	waiting := pod("waiting", corev1.PodPending, inline(contract.CSIProvisioner))
	waiting.Spec.NodeName = ""
	many := []client.Object{}
	for i := range 12 {
		many = append(many, pod(fmt.Sprintf("p%02d", i), corev1.PodRunning, inline(contract.CSIProvisioner)))
	}
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	for _, row := range []struct {
		what, form, words string
		objects           []client.Object
	}{
		{what: "nothing", form: "csi"},
		{"inline", "csi", "pods with CSI volumes cannot end without the agents; delete the pods, or what creates them, first: ns/a",
			[]client.Object{pod("a", corev1.PodRunning, inline(contract.CSIProvisioner))}},
		{"by a claim", "both", "first: ns/a", []client.Object{pod("a", corev1.PodPending, claim("c")), pv("c", contract.CSIProvisioner)}},
		{"generic", "csi", "first: ns/a", []client.Object{pod("a", corev1.PodRunning, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			pv("a-data", contract.CSIProvisioner)}},
		{"another driver", "csi", "", []client.Object{pod("a", corev1.PodRunning, inline("other")), pod("b", corev1.PodRunning, claim("c")), pv("c", "other")}},
		{"ended", "csi", "", []client.Object{pod("a", corev1.PodSucceeded, inline(contract.CSIProvisioner)), pod("b", corev1.PodFailed, claim("c")), pv("c", contract.CSIProvisioner)}},
		{"on no node", "csi", "", []client.Object{waiting}},
		{"many", "csi", "ns/p09 and 2 more", many},
		{"hostPath", "legacy", "", []client.Object{pod("a", corev1.PodRunning, inline(contract.CSIProvisioner))}},
		{"operator", "operator", "delete them and wait until they are gone: hpp", []client.Object{cr}},
		{"no resource", "operator", "", []client.Object{pod("a", corev1.PodRunning, inline(contract.CSIProvisioner))}},
		{"resource of another form", "csi", "", []client.Object{cr}},
	} {
		err := Check(t.Context(), fakeOf(t, nil, row.objects...), row.form)
		if (err == nil) != (row.words == "") || err != nil && !strings.HasSuffix(err.Error(), row.words) {
			t.Errorf("%s: %v, want words %q", row.what, err, row.words)
		}
	}
}

// What cannot be read is not taken for absent, but for a definition that does not exist.
func TestUnread(t *testing.T) {
	for _, form := range Forms {
		if err := Check(t.Context(), fakeOf(t, context.DeadlineExceeded), form); err == nil {
			t.Errorf("%s: nothing stands against the removal", form)
		}
	}
	if err := Check(t.Context(), fakeOf(t, &meta.NoKindMatchError{}), "operator"); err != nil {
		t.Error(err)
	}
}

func fakeOf(t *testing.T, failure error, objects ...client.Object) client.Client {
	t.Helper()
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(all); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(all).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if failure != nil {
				return failure
			}
			return to.List(ctx, list, opts...)
		},
	}).Build()
}
