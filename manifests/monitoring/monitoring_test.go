package monitoring_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/manifests/monitoring"
)

var update = flag.Bool("update", false, "write prometheusrule.yaml")

// head is what prometheusrule.yaml has before the groups.
const head = `# Generated from prometheus/agents.yaml: go test ./manifests/monitoring -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: prometheus-hpp-rules
  namespace: hostpath-provisioner
  labels:
    prometheus.hostpathprovisioner.kubevirt.io: "true"
spec:
`

// TestPrometheusRuleIsCurrent compares the object with the rule file.
func TestPrometheusRuleIsCurrent(t *testing.T) {
	_, groups, found := strings.Cut(monitoring.AgentRules, "\ngroups:\n")
	if !found {
		t.Fatal("the rule file has no groups")
	}
	want := head + "  groups:\n"
	for line := range strings.Lines(groups) {
		want += "  " + line
	}
	if *update {
		if err := os.WriteFile("prometheusrule.yaml", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if monitoring.PrometheusRule != want {
		t.Error("prometheusrule.yaml differs from prometheus/agents.yaml: go test ./manifests/monitoring -update")
	}
}
