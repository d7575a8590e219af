package suite

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// metricsReader is the name of the account that reads metrics for tokens, and of what it has.
const metricsReader = "hpp-metrics-reader"

// readerObjects are the objects of that account, but for its Secret.
var readerObjects = []string{"/v1/serviceaccounts", "rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1/clusterrolebindings"}

// measuredForTokens has the metrics for tokens, and for everyone again.
func measuredForTokens(t *testing.T, o *operated) {
	address := o.operator.MetricsAddress()
	answers := func(token string, want int) {
		t.Helper()
		o.Eventually("metrics", func() error {
			status, _, err := scrape(address, token)
			if err == nil && status != want {
				err = fmt.Errorf("code %d, want %d", status, want)
			}
			return err
		})
	}
	o.healthy()
	o.change(`{"spec":{"metricsAuth":"token"}}`)
	token := ""
	o.Eventually("the token", func() error {
		secret, err := o.Client.CoreV1().Secrets(harness.Namespace).Get(t.Context(), metricsReader, metav1.GetOptions{})
		if token = string(secret.Data["token"]); err == nil && token == "" {
			err = errors.New("the Secret is empty")
		}
		return err
	})
	answers("", http.StatusUnauthorized)
	answers(token, http.StatusOK)
	o.healthy()
	if err := o.hasVariables("HPP_METRICS_AUTH=token"); err != nil {
		t.Error(err)
	}
	o.sendsToken(true)
	for _, kind := range readerObjects {
		t.Run("delete "+kind, func(t *testing.T) { deleted(kind, metricsReader)(t, o.in(t)) })
	}
	o.change(`{"spec":{"metricsAuth":null}}`)
	answers("", http.StatusOK)
	o.Eventually("all of it is gone", func() error {
		for _, kind := range append(slices.Clone(readerObjects), "/v1/secrets") {
			if _, err := o.kind(kind).Get(t.Context(), metricsReader, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		return nil
	})
	o.sendsToken(false)
	o.healthy()
}

// sendsToken waits until the ServiceMonitor sends a token, or none. Without it there is no such kind in this
// test.
func (o *operated) sendsToken(want bool) {
	o.Helper()
	if testing.Short() {
		return
	}
	o.Eventually("the ServiceMonitor", func() error {
		m, err := o.kind("monitoring.coreos.com/v1/servicemonitors").Get(o.Context(), "service-monitor-hpp", metav1.GetOptions{})
		if err != nil {
			return err
		}
		endpoints, _, _ := unstructured.NestedSlice(m.Object, "spec", "endpoints")
		name, _, _ := unstructured.NestedString(endpoints[0].(map[string]any), "authorization", "credentials", "name")
		if (name == metricsReader) != want {
			return fmt.Errorf("it sends the token of %q", name)
		}
		return nil
	})
}
