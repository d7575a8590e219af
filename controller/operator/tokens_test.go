package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/install"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

func withMetrics(value string) *v1beta1.HostPathProvisioner {
	return &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"},
		Spec: v1beta1.HostPathProvisionerSpec{MetricsAuth: value}}
}

// clientOf is a client of a cluster with the objects.
func clientOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	types, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).Build()
}

// The operator's own metrics are for everyone unless the resource has them for tokens, or cannot be read.
func TestOwnMetricsAreForTokens(t *testing.T) {
	metrics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	broken := interceptor.NewClient(clientOf(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no cache")
		}})
	for what, row := range map[string]struct {
		resources client.Reader
		status    int
	}{
		"no resource": {clientOf(t), 200}, "by default": {clientOf(t, withMetrics("")), 200}, "none": {clientOf(t, withMetrics("none")), 200},
		"token": {clientOf(t, withMetrics("token")), 401}, "an unknown value": {clientOf(t, withMetrics("Token")), 401}, "no cache": {broken, 401},
	} {
		answer := httptest.NewRecorder()
		guarded(row.resources, kube.NewClientset(), metrics).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if answer.Code != row.status {
			t.Errorf("%s: %d, want %d", what, answer.Code, row.status)
		}
	}
}

// The ServiceMonitor sends the token once there is one, and only while the metrics are for tokens.
func TestServiceMonitorSendsTheToken(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: metricsauth.Name, Labels: map[string]string{apply.ManagedBy: apply.Owner},
		Annotations: map[string]string{corev1.ServiceAccountNameKey: metricsauth.Name}}, Type: corev1.SecretTypeServiceAccountToken}
	filled := secret.DeepCopy()
	filled.Data = map[string][]byte{metricsauth.TokenKey: []byte("token")}
	for what, row := range map[string]struct {
		value  string
		secret *corev1.Secret
		name   string
	}{"by default": {"", filled, ""}, "no token yet": {"token", secret, ""}, "token": {"token", filled, "hpp-metrics-reader"}} {
		c := clientOf(t, row.secret)
		s := Settings{Namespace: "ns", Monitoring: "prom"}
		r := &wiring{Settings: s, Reconciler: install.New(s.agents(), c, c, events.NewFakeRecorder(10), tlsprofile.New(tlsprofile.Profile{}), time.Now)}
		cr := withMetrics(row.value)
		objects, err := s.monitored(cr)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.authorize(t.Context(), cr, objects); err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			endpoints, found, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
			if !found {
				continue
			}
			name, _, _ := unstructured.NestedString(endpoints[0].(map[string]any), "authorization", "credentials", "name")
			key, _, _ := unstructured.NestedString(endpoints[0].(map[string]any), "authorization", "credentials", "key")
			if name != row.name || (key == "token") != (name != "") {
				t.Errorf("%s: Secret %q, key %q, want %q", what, name, key, row.name)
			}
		}
	}
}
