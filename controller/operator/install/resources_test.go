package install

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// operated is an operator with a fake API server. No controller of Kubernetes runs beside it.
type operated struct {
	*testing.T
	client client.WithWatch
	*Reconciler
}

func operate(t *testing.T, objects ...client.Object) operated {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(objects...).WithStatusSubresource(&v1beta1.HostPathProvisioner{}).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }).Build()
	s := Settings{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1", Version: "v1"}
	return operated{t, c, New(s, c, c, events.NewFakeRecorder(1000), tlsprofile.New(tlsprofile.Profile{}), time.Now)}
}

// pass reconciles the resource once.
func (o operated) pass(name string) {
	o.Helper()
	if _, err := o.Reconcile(o.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		o.Fatalf("reconcile %s: %v", name, err)
	}
}

// offered returns the pools that the agents offer, "" if they are not installed.
func (o operated) offered() (pools string) {
	o.Helper()
	set, err := o.installed().DaemonSet(o.Context())
	if err != nil {
		o.Fatal(err)
	}
	if set != nil {
		for _, p := range poolrecord.OfferOf(set.Spec.Template.Spec).Pools {
			pools += p.Name + "=" + p.Path
		}
	}
	return pools
}

func resource(name string, age time.Duration, pools ...v1beta1.StoragePool) *v1beta1.HostPathProvisioner {
	return &v1beta1.HostPathProvisioner{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
		Spec:       v1beta1.HostPathProvisionerSpec{StoragePools: pools},
	}
}

// A resource whose only pool is refused, or that names none, as one without a spec, shows why in its status.
func TestOnlyPoolIsRefused(t *testing.T) {
	shared := &corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}
	for reason, cr := range map[string]*v1beta1.HostPathProvisioner{
		"SharedPoolUnsupported": resource("hpp", time.Hour, v1beta1.StoragePool{Name: "shared", Path: "/srv/shared", PVCTemplate: shared}),
		"SettingInvalid":        resource("hpp", time.Hour),
	} {
		o := operate(t, cr)
		o.pass("hpp")
		var cr v1beta1.HostPathProvisioner
		if err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil {
			t.Fatal(err)
		}
		if c := progress(cr.Status); c.Reason != reason || o.offered() != "" {
			t.Errorf("condition %+v; the agents offer %q", c, o.offered())
		}
	}
}

// A resource that is not served is deleted: the agents stay as the served one describes them. It
// can have a finalizer: it was applied with one, or was the older one for a moment.
func TestDeletedSecondResource(t *testing.T) {
	first := resource("first", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"})
	second := resource("second", 0, v1beta1.StoragePool{Name: "z", Path: "/z"})
	second.Finalizers = []string{finalizer}
	for name, annotations := range map[string]map[string]string{"plain": nil, "by force": {forceAnnotation: "true"}} {
		t.Run(name, func(t *testing.T) {
			second := second.DeepCopy()
			second.Annotations = annotations
			o := operate(t, first.DeepCopy(), second)
			o.pass("first")
			o.pass("second")
			if err := o.client.Delete(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			o.pass("second")
			if got := o.offered(); got != "a=/a/csi" {
				t.Errorf("the agents offer %q", got)
			}
			if err := o.client.Get(t.Context(), client.ObjectKey{Name: "second"}, second); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("the second resource is there: %v", err)
			}
		})
	}
}

// An agent's pod that does not end keeps a deleted resource only while its node answers, and the
// conditions name the node.
func TestDeletedWhileAnAgentDoesNotEnd(t *testing.T) {
	for name, row := range map[string]struct {
		ready corev1.ConditionStatus
		gone  bool
	}{"its node is ready": {corev1.ConditionTrue, false}, "its node does not answer": {corev1.ConditionUnknown, true}} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: row.ready}}}}
			o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}), node)
			o.pass("hpp")
			set, err := o.installed().DaemonSet(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent", Finalizers: []string{"test/hangs"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}},
				Spec: corev1.PodSpec{NodeName: "n1"}}
			set.Finalizers = []string{metav1.FinalizerDeleteDependents} // Kubernetes adds it, and waits for the pod
			var cr v1beta1.HostPathProvisioner
			for _, err := range []error{o.client.Create(t.Context(), pod), o.client.Update(t.Context(), set), o.client.Delete(t.Context(), pod),
				o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr), o.client.Delete(t.Context(), &cr)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				o.pass("hpp")
			}
			err = o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr)
			if c := progress(cr.Status); (err != nil) != row.gone || !row.gone && (c.Reason != "AgentsEnding" || !strings.Contains(c.Message, "n1")) {
				t.Errorf("the resource: %v, condition %+v", err, c)
			}
		})
	}
}
