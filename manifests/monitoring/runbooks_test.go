package monitoring_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/manifests/monitoring"
)

// rule is an alert or a recording rule.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T, text string) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil || len(file.Groups) == 0 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Each alert has a page, and each page an alert. The page begins with the alert's name and has all
// sections.
func TestEachAlertHasItsRunbook(t *testing.T) {
	const dir = "../../docs/runbooks"
	alerts := []string{}
	for _, r := range append(rules(t, monitoring.AgentRules), rules(t, monitoring.OperatorRules)...) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		for _, label := range []string{"severity", "operator_health_impact"} {
			if r.Labels[label] == "" {
				t.Errorf("%s: has no label %s", r.Alert, label)
			}
		}
		if r.Labels["kubernetes_operator_part_of"] != "kubevirt" || r.Labels["kubernetes_operator_component"] != "hostpath-provisioner-operator" {
			t.Errorf("%s: labels %v", r.Alert, r.Labels)
		}
		if r.Annotations["runbook_url"] != "docs/runbooks/"+r.Alert+".md" || r.Annotations["summary"] == "" || r.For == "" {
			t.Errorf("%s: runbook_url %q, summary %q, for %q", r.Alert, r.Annotations["runbook_url"], r.Annotations["summary"], r.For)
		}
		page, err := os.ReadFile(filepath.Join(dir, r.Alert+".md"))
		if err != nil {
			t.Error(err)
		}
		for _, part := range []string{"# " + r.Alert + "\n", "\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s.md: no %q", r.Alert, part)
			}
		}
	}
	pages, err := filepath.Glob(dir + "/HPP*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if alert := strings.TrimSuffix(filepath.Base(page), ".md"); !slices.Contains(alerts, alert) {
			t.Errorf("%s is the page of no alert", page)
		}
	}
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range alerts {
		if !strings.Contains(string(text), "(runbooks/"+alert+".md)") {
			t.Errorf("docs/monitoring.md does not link the page of %s", alert)
		}
	}
}
