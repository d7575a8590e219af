package install

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
)

// metrics reports whether the agents' template has them ask for tokens, whether they may review these, and how
// many of the four objects of the account that reads the metrics are there.
func (o operated) metrics() (required, permitted bool, objects int) {
	o.Helper()
	required = metricsauth.Requires(o.agents().Spec.Template.Spec)
	var role rbacv1.ClusterRole
	if err := o.client.Get(o.Context(), client.ObjectKey{Name: "hostpath-provisioner-admin-csi"}, &role); err != nil {
		o.Fatal(err)
	}
	for _, rule := range role.Rules {
		permitted = permitted || rule.Resources[0] == "tokenreviews"
	}
	return required, permitted, o.readers()
}

func (o operated) readers() (objects int) {
	o.Helper()
	here := metav1.ObjectMeta{Namespace: "ns", Name: metricsauth.Name}
	all := metav1.ObjectMeta{Name: metricsauth.Name}
	for _, object := range []client.Object{&corev1.ServiceAccount{ObjectMeta: here}, &corev1.Secret{ObjectMeta: here},
		&rbacv1.ClusterRole{ObjectMeta: all}, &rbacv1.ClusterRoleBinding{ObjectMeta: all}} {
		err := o.client.Get(o.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			o.Fatal(err)
		}
		if err != nil {
			continue
		}
		objects++
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "hpp" {
			o.Errorf("%T: owners %v, so an operator that does not know it would leave it", object, owners)
		}
	}
	return objects
}

// The metrics are for tokens only if the resource asks for it. What is made for that goes when no agent asks
// for tokens any more, and not before.
func TestMetricsAreForTokens(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, poolA))
	o.pass("hpp")
	o.counts(1, 0)
	o.add(o.agentOn("n1"))
	want := func(when string, required, permitted bool, objects int) {
		t.Helper()
		o.pass("hpp")
		if r, p, n := o.metrics(); r != required || p != permitted || n != objects {
			t.Errorf("%s: required %t, permitted %t, %d objects; want %t, %t, %d", when, r, p, n, required, permitted, objects)
		}
	}
	ask := func(value string) {
		t.Helper()
		o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Spec.MetricsAuth = value })
	}
	want("at first", false, false, 0)
	ask("none")
	want("with none", false, false, 0)
	ask("token")
	want("with token", true, true, 4)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: metricsauth.Name}}
	if err := o.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	want("when the Secret was deleted", true, true, 4)
	if has, err := o.Reader().HasToken(t.Context()); has || err != nil {
		t.Errorf("a token before Kubernetes made one: %t, %v", has, err)
	}
	o.endAgents("n1")
	o.add(o.agentOn("n1")) // it asks for tokens
	ask("")
	want("while an agent asks for tokens", false, true, 4)
	want("while an agent asks for tokens, later", false, true, 4)
	o.endAgents("n1")
	o.add(o.agentOn("n1"))
	want("when no agent does", false, false, 0)
	ask("Token")
	want("with a value that the API server should have refused", true, true, 4)
	o.deletes(nil)
	o.endAgents("n1")
	for range 20 {
		o.pass("hpp")
	}
	o.wantGone()
	if n := o.readers(); n != 0 {
		t.Errorf("%d objects outlive the resource", n)
	}
}

// A pod on a node that does not answer serves no metrics, and keeps nothing.
func TestDeadAgentNeedsNoTokens(t *testing.T) {
	o := installedOn(t, "n1")
	o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Spec.MetricsAuth = "token" })
	o.pass("hpp")
	o.endAgents("n1")
	dead := o.agentOn("dead") // there is no such node
	o.add(dead)
	if err := o.client.Delete(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Spec.MetricsAuth = "none" })
	o.pass("hpp")
	o.pass("hpp")
	if required, permitted, objects := o.metrics(); required || permitted || objects != 0 {
		t.Errorf("required %t, permitted %t, %d objects", required, permitted, objects)
	}
}

// A Secret of the same name with the token of another account, which may do more, is neither sent to Prometheus
// nor deleted, and the agents are updated meanwhile.
func TestAnotherSecretForMetrics(t *testing.T) {
	cr := resource("hpp", time.Hour, poolA)
	cr.Spec.MetricsAuth = "token"
	another := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: metricsauth.Name, Labels: map[string]string{apply.ManagedBy: apply.Owner},
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "admin"}}, Type: corev1.SecretTypeServiceAccountToken,
		Data: map[string][]byte{metricsauth.TokenKey: []byte("secret")}}
	o := operate(t, cr, another.DeepCopy())
	_, err := o.Reconcile(t.Context(), requestOf("hpp"))
	if err == nil || !strings.Contains(err.Error(), "Secret hpp-metrics-reader in namespace ns is not the one that the operator makes") {
		t.Errorf("%v", err)
	}
	if has, err := o.Reader().HasToken(t.Context()); has || err != nil {
		t.Errorf("its token is taken: %t, %v", has, err)
	}
	if !metricsauth.Requires(o.agents().Spec.Template.Spec) {
		t.Error("the agents are not updated")
	}
	o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Spec.MetricsAuth = "" })
	_, _ = o.Reconcile(t.Context(), requestOf("hpp")) // the agents' DaemonSet asks for tokens before it
	o.pass("hpp")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: metricsauth.Name}}
	if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(account), account); !apierrors.IsNotFound(err) {
		t.Errorf("the account is still there: %v", err)
	}
	if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(another), another); apierrors.IsNotFound(err) {
		t.Error("the Secret of another was deleted")
	}
}
