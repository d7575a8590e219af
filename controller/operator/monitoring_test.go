package operator

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
)

// monitoredBy returns the monitoring objects of an operator with these settings, by kind.
func monitoredBy(t *testing.T, s Settings) map[string]*unstructured.Unstructured {
	t.Helper()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"}}
	objects, err := s.monitored(cr)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		all[o.GetKind()] = o
		if o.GetNamespace() != s.Namespace || len(o.GetOwnerReferences()) != 1 || o.GetLabels()[apply.ManagedBy] != apply.Owner ||
			o.GetLabels()["prometheus.hostpathprovisioner.kubevirt.io"] != "true" {
			t.Errorf("%s: metadata %v", o.GetKind(), o.Object["metadata"])
		}
	}
	return all
}

func TestMonitoredObjects(t *testing.T) {
	all := monitoredBy(t, Settings{Namespace: "ns", Monitoring: "prom", Runbooks: "https://example.com/%s.html"})
	for kind, name := range map[string]string{"Role": "hostpath-provisioner-monitoring", "RoleBinding": "hostpath-provisioner-monitoring",
		"Service": "hpp-prometheus-metrics", "ServiceMonitor": "service-monitor-hpp", "PrometheusRule": "prometheus-hpp-rules"} {
		if all[kind] == nil || all[kind].GetName() != name {
			t.Errorf("%s is %v, want %s", kind, all[kind], name)
		}
	}
	text, err := json.Marshal(all["RoleBinding"].Object["subjects"])
	if err != nil || string(text) != `[{"kind":"ServiceAccount","name":"prometheus-k8s","namespace":"prom"}]` {
		t.Errorf("subjects %s, %v", text, err)
	}
	ports, _, _ := unstructured.NestedSlice(all["Service"].Object, "spec", "ports")
	if port, is := ports[0].(map[string]any)["port"].(int64); !is || port != 8443 { // otherwise it differs from the cluster's
		t.Errorf("ports %v", ports)
	}
	rules, err := json.Marshal(all["PrometheusRule"].Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"HPPPoolNotReady"`, `"HPPOperatorDown"`, `{namespace='ns', pod=~'hostpath-provisioner-operator-.*'}`,
		`"https://example.com/HPPNotReady.html"`, `"https://example.com/HPPOrphans.html"`} {
		if !strings.Contains(string(rules), want) {
			t.Errorf("the rules have no %s", want)
		}
	}
	if strings.Contains(string(rules), "namespace='hostpath-provisioner'") || strings.Contains(string(rules), "docs/runbooks") {
		t.Errorf("the rules have the namespace or pages of the manifests: %s", rules)
	}
	rules, err = json.Marshal(monitoredBy(t, Settings{Namespace: "ns", Monitoring: "prom"})["PrometheusRule"].Object)
	if err != nil || !strings.Contains(string(rules), "docs/runbooks/HPPNotReady.md") {
		t.Errorf("without a template: %s, %v", rules, err)
	}
}

func TestRunbookTemplate(t *testing.T) {
	for template, words := range map[string]string{
		"": "", "https://example.com/%s": "", "https://example.com/": "with one %s", "%s/%s": "with one %s",
	} {
		env := map[string]string{"OPERATOR_IMAGE": "image", "RUNBOOK_URL_TEMPLATE": template}
		s, _, err := ParseSettings("v1", func(name string) string { return env[name] })
		if words == "" && (err != nil || s.Monitoring != "monitoring") || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %+v, %v", template, s, err)
		}
	}
}
