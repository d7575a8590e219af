package install

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// contender is an operator with a fake API server that keeps managed fields, and a clock.
type contender struct {
	*testing.T
	c   client.WithWatch
	r   *Reconciler
	now time.Time
	// recorded are its events.
	recorded *events.FakeRecorder
}

func contend(t *testing.T, objects ...client.Object) *contender {
	t.Helper()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"},
		Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}}
	c := fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(append(objects, cr)...).WithStatusSubresource(cr).WithReturnManagedFields().Build()
	s := Settings{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1", Version: "v1"}
	w := &contender{T: t, c: c, now: time.Now(), recorded: events.NewFakeRecorder(10000)}
	w.r = New(s, c, c, w.recorded, tlsprofile.New(tlsprofile.Profile{}), func() time.Time { return w.now })
	return w
}

func requestOf(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

func (w *contender) pass() reconcile.Result {
	w.Helper()
	result, err := w.r.Reconcile(w.Context(), requestOf("hpp"))
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// warned returns the recorded events of the reason, and forgets all events.
func (w *contender) warned(reason string) (found []string) {
	for len(w.recorded.Events) > 0 {
		if text := <-w.recorded.Events; strings.HasPrefix(text, "Warning "+reason+" ") {
			found = append(found, text)
		}
	}
	return found
}

// change has someone else change the object.
func (w *contender) change(o client.Object, manager string, change func()) {
	w.Helper()
	if err := w.c.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	before := o.DeepCopyObject().(client.Object)
	change()
	if err := w.c.Patch(w.Context(), o, client.MergeFrom(before), client.FieldOwner(manager)); err != nil {
		w.Fatal(err)
	}
}

// Secrets that OpenShift or an administrator adds to the agents' account stay.
func TestPullSecretsStay(t *testing.T) {
	w := contend(t)
	w.pass()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner-admin-csi"}}
	for _, manager := range []string{"openshift-controller-manager", "kubectl-patch"} {
		w.change(account, manager, func() {
			account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: manager})
			account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: manager})
		})
		w.pass()
	}
	if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
		t.Fatal(err)
	}
	if len(account.ImagePullSecrets) != 2 || len(account.Secrets) != 2 {
		t.Errorf("pull secrets %v, secrets %v, want two of each", account.ImagePullSecrets, account.Secrets)
	}
}

// An object that is changed after each repair is repaired less and less often, with an event for
// each delay; others are repaired at once, and so is this one once the changes have ended.
func TestContestedObject(t *testing.T) {
	const repairedAtOnce, longestDelay, forgotten = 10, 10 * time.Minute, 20 * time.Minute // those of package apply
	w := contend(t)
	w.pass()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hostpath-provisioner-admin-csi"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner-operator-webhook-service"}}
	repaired := 0
	for range 360 { // an hour with a change every ten seconds
		w.change(role, "rival", func() { role.Rules = nil })
		result := w.pass()
		w.now = w.now.Add(10 * time.Second)
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) > 0 {
			repaired++
		} else if result.RequeueAfter <= 0 || result.RequeueAfter > longestDelay {
			t.Fatalf("not repaired, and tried again after %s", result.RequeueAfter)
		}
	}
	told := w.warned("ResourceContested")
	if repaired < repairedAtOnce-1 || repaired > 25 || len(told) < 5 || len(told) > 15 || !strings.Contains(told[0], "ClusterRole hostpath-provisioner-admin-csi") || !strings.Contains(told[0], "rival") {
		t.Errorf("%d repairs and %d events in an hour: %v", repaired, len(told), told)
	}
	w.change(service, "user", func() { service.Spec.Ports[0].Port = 1 })
	w.pass()
	if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil || service.Spec.Ports[0].Port == 1 {
		t.Errorf("the Service, which nobody contests, has port %d, %v", service.Spec.Ports[0].Port, err)
	}
	w.now = w.now.Add(longestDelay)
	w.pass()
	for i := range 2 {
		w.now = w.now.Add(forgotten + time.Minute)
		w.change(service, "user", func() { service.Spec.Ports[0].Port = int32(1 + i) }) // its repair forgets what is long ago
		w.pass()
		w.change(role, "rival", func() { role.Rules = nil })
		w.pass()
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil || len(role.Rules) == 0 {
			t.Errorf("round %d: a ClusterRole that was in peace for long has %d rules, %v", i, len(role.Rules), err)
		}
	}
}

// Two contents that the operator writes in turn, while others change both, are written less and less
// often, too.
func TestContestedContents(t *testing.T) {
	w := contend(t)
	w.pass()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner-csi"}}
	repaired := 0
	for i := range 120 { // twenty minutes with a change every ten seconds
		var cr v1beta1.HostPathProvisioner
		if err := w.c.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil {
			t.Fatal(err)
		}
		cr.Spec.ImagePullPolicy = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent}[i/2%2]
		if err := w.c.Update(t.Context(), &cr); err != nil {
			t.Fatal(err)
		}
		w.change(set, "rival", func() { set.Spec.Template.Spec.Containers[0].Image = "rival" })
		w.pass()
		w.now = w.now.Add(10 * time.Second)
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		if set.Spec.Template.Spec.Containers[0].Image != "rival" {
			repaired++
		}
	}
	if told := w.warned("ResourceContested"); repaired > 40 || len(told) == 0 {
		t.Errorf("%d repairs and %d events in twenty minutes", repaired, len(told))
	}
}

// The operator leaves the cluster to another installation while that one has pods, and takes over
// what it left otherwise.
func TestAnotherInstallation(t *testing.T) {
	binding := func(namespace string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: installed.BindingName, Labels: map[string]string{apply.ManagedBy: apply.Owner}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: installed.BindingName},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: installed.BindingName, Namespace: namespace}}}
	}
	pod := func(namespace string, phase corev1.PodPhase, key, value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: map[string]string{key: value}}, Status: corev1.PodStatus{Phase: phase}}
	}
	for name, row := range map[string]struct {
		objects []client.Object
		refused bool
	}{
		"none":                      {nil, false},
		"our own":                   {[]client.Object{binding("ns"), pod("ns", corev1.PodRunning, "k8s-app", "hostpath-provisioner")}, false},
		"another operator":          {[]client.Object{binding("other"), pod("other", corev1.PodRunning, "name", "hostpath-provisioner-operator")}, true},
		"agents without operator":   {[]client.Object{binding("other"), pod("other", corev1.PodPending, "k8s-app", "hostpath-provisioner")}, true},
		"what a removed one left":   {[]client.Object{binding("other")}, false},
		"only pods that have ended": {[]client.Object{binding("other"), pod("other", corev1.PodFailed, "k8s-app", "hostpath-provisioner")}, false},
		"a tenant with our labels":  {[]client.Object{pod("tenant", corev1.PodRunning, "k8s-app", "hostpath-provisioner")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := contend(t, row.objects...)
			w.pass()
			told := w.warned("AnotherInstallation")
			set, err := w.r.installed().DaemonSet(t.Context())
			if err != nil || (set == nil) != row.refused || (len(told) > 0) != row.refused {
				t.Errorf("installed %v, %v, events %v", set != nil, err, told)
			}
			var cr v1beta1.HostPathProvisioner
			if err := w.c.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil || row.refused && (len(cr.Finalizers) > 0 || len(cr.Status.Conditions) > 0) {
				t.Errorf("the resource has finalizers %v and conditions %v, %v", cr.Finalizers, cr.Status.Conditions, err)
			}
			if _, err := layout.NodeGoneGrace(t.Context(), w.r.installed()); (err != nil) != row.refused {
				t.Errorf("volumes of nodes that are gone: %v", err)
			}
		})
	}
}
