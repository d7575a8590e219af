package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fires is a row that has promtool run a test of package monitoring, by its name, against the rules
// that the operator applied.
func fires(name string) func(*testing.T, *operated) {
	return func(t *testing.T, o *operated) {
		dir := t.TempDir()
		rules := filepath.Join(dir, "rules.yaml")
		writeYAML(t, rules, map[string]any{"groups": o.ruleGroups()})
		tests := []any{}
		for _, file := range []string{"agents.yaml", "operator.yaml"} {
			text, err := os.ReadFile("../monitoring/testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			var all struct{ Tests []map[string]any }
			if err := yaml.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			for _, test := range all.Tests {
				if test["name"] == name {
					tests = append(tests, test)
				}
			}
		}
		if len(tests) != 1 {
			t.Fatalf("%d tests are named %q, want one", len(tests), name)
		}
		file := filepath.Join(dir, "test.yaml")
		writeYAML(t, file, map[string]any{"rule_files": []any{rules}, "evaluation_interval": "1m", "tests": tests})
		if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// alertRules wants the alerts of the existing operator among the rules, with the labels and the
// annotations that its users know.
func alertRules(t *testing.T, o *operated) {
	want := map[string]string{"HPPOperatorDown": "critical", "HPPNotReady": "critical", "HPPSharingPoolPathWithOS": "warning"}
	for _, g := range o.ruleGroups() {
		rules, _, _ := unstructured.NestedSlice(g.(map[string]any), "rules")
		for _, r := range rules {
			rule := r.(map[string]any)
			name, _ := rule["alert"].(string)
			impact, known := want[name]
			if !known {
				continue
			}
			delete(want, name)
			labels, _, _ := unstructured.NestedStringMap(rule, "labels")
			notes, _, _ := unstructured.NestedStringMap(rule, "annotations")
			if labels["severity"] != "warning" || labels["operator_health_impact"] != impact || notes["summary"] == "" || notes["runbook_url"] == "" ||
				labels["kubernetes_operator_part_of"] != "kubevirt" || labels["kubernetes_operator_component"] != "hostpath-provisioner-operator" {
				t.Errorf("%s: labels %v, annotations %v", name, labels, notes)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no rules for %v", want)
	}
}

// ruleGroups returns the groups of the rules in the cluster.
func (o *operated) ruleGroups() []any {
	o.Helper()
	groups, _, err := unstructured.NestedSlice(o.get("monitoring.coreos.com/v1/prometheusrules", "prometheus-hpp-rules").Object, "spec", "groups")
	if err != nil || len(groups) == 0 {
		o.Fatalf("groups %v, %v", groups, err)
	}
	return groups
}

func writeYAML(t *testing.T, file string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
