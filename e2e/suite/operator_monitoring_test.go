package suite

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// monitoringObjects are the objects that the operator applies where the cluster has the Prometheus
// operator.
var monitoringObjects = []struct{ kind, name, field string }{
	{"rbac.authorization.k8s.io/v1/roles", "hostpath-provisioner-monitoring", "rules"},
	{"rbac.authorization.k8s.io/v1/rolebindings", "hostpath-provisioner-monitoring", "subjects"},
	{"/v1/services", "hpp-prometheus-metrics", ""},
	{"monitoring.coreos.com/v1/servicemonitors", "service-monitor-hpp", "spec"},
	{"monitoring.coreos.com/v1/prometheusrules", "prometheus-hpp-rules", "spec"},
}

// noticed is the time in which the operator notices that an API is served or not.
const noticed = 30 * time.Second

// monitored has the API of the Prometheus operator absent, appearing, disappearing and appearing
// again.
func monitored(t *testing.T, o *operated) {
	const kinds = "testdata/prometheus-operator.yaml"
	if _, err := o.kind("/v1/services").Get(o.Context(), "hpp-prometheus-metrics", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("before the cluster has the API: %v", err)
	}
	o.healthy()
	o.apply(kinds)
	o.monitoringApplied()
	for _, row := range monitoringObjects {
		if row.field == "" { // a Service has another address after it
			if err := o.kind(row.kind).Delete(o.Context(), row.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			o.Within(repaired, row.name, func() error {
				_, err := o.kind(row.kind).Get(o.Context(), row.name, metav1.GetOptions{})
				return err
			})
			continue
		}
		t.Run("delete "+row.kind, func(t *testing.T) { deleted(row.kind, row.name)(t, o.in(t)) })
		t.Run("modify "+row.kind, func(t *testing.T) {
			o.in(t).edited(row.kind, row.name, row.field, func(object *unstructured.Unstructured) { delete(object.Object, row.field) })
		})
	}
	if out, err := exec.Command(o.Plane.Binaries().Path("kubectl"), "delete", "-f", kinds, "--kubeconfig", o.Plane.Kubeconfig()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	time.Sleep(noticed)
	o.healthy()
	o.apply(kinds)
	o.monitoringApplied()
	o.healthy()
}

// monitoringApplied waits until all objects are there.
func (o *operated) monitoringApplied() {
	o.Helper()
	o.Eventually("monitoring objects", func() (err error) {
		for _, row := range monitoringObjects {
			object, e := o.kind(row.kind).Get(o.Context(), row.name, metav1.GetOptions{})
			if e == nil && (len(object.GetOwnerReferences()) != 1 || object.GetOwnerReferences()[0].Kind != "HostPathProvisioner") {
				e = fmt.Errorf("owners of %s: %v", row.name, object.GetOwnerReferences())
			}
			err = errors.Join(err, e)
		}
		return err
	})
}

// measured has the metrics of the operator.
func measured(_ *testing.T, o *operated) {
	o.healthy()
	o.metricsHave("kubevirt_hpp_cr_ready 1", "kubevirt_hpp_agents_desired 2", "kubevirt_hpp_agents_ready 2")
	if _, body, err := scrape(o.operator.MetricsAddress(), ""); err != nil {
		o.Error(err)
	} else if err := exported(operatorRules, body); err != nil {
		o.Error(err)
	}
	o.breaks(o.nodes[0].Name)
	defer o.breaks("")
	o.metricsHave("kubevirt_hpp_cr_ready 0", "kubevirt_hpp_agents_desired 2", "kubevirt_hpp_agents_ready 1")
	o.breaks("")
	o.healthy()
}

// metricsHave waits until /metrics of the operator has the lines.
func (o *operated) metricsHave(lines ...string) {
	o.Helper()
	o.Eventually("metrics", func() error {
		status, body, err := scrape(o.operator.MetricsAddress(), "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		for _, line := range lines {
			if err == nil && !strings.Contains(body, "\n"+line+"\n") {
				err = fmt.Errorf("no %q", line)
			}
		}
		return err
	})
}
