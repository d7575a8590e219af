package agentenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	valid, problems := Parse(map[string]string{
		"HPP_RESERVE": "10Gi", "HPP_PURGE_RATE": "-1", "HPP_ORPHANS": "delete", "HPP_CAPACITY": "", "HPP_RESERV": "1Gi", "PV_DIR": "/a",
		KubeletDir: "/var/lib/k0s/../kubelet", NodeGoneGrace: "-5m",
	})
	if want := []Variable{{"HPP_ORPHANS", "delete"}, {"HPP_RESERVE", "10Gi"}}; !slices.Equal(valid, want) {
		t.Errorf("valid %v, want %v", valid, want)
	}
	want := []string{
		`ConfigMap hostpath-provisioner-settings: HPP_KUBELET_DIR is "/var/lib/k0s/../kubelet"; set it to an absolute path without . and ..`,
		`ConfigMap hostpath-provisioner-settings: HPP_PURGE_RATE is "-1"; set it to a number that is not negative`,
		`ConfigMap hostpath-provisioner-settings: HPP_RESERV is "1Gi"; there is no such setting, so remove it`,
		`ConfigMap hostpath-provisioner-settings: PV_DIR is "/a"; it comes from spec.pathConfig.path, so remove it`,
		`ConfigMap hostpath-provisioner-settings: nodeGoneGrace is "-5m"; set it to a duration such as 5m`,
	}
	if !slices.Equal(problems, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

// TestPage compares the names with docs/operator.md.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(Names(), NodeGoneGrace) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operator.md does not list %s", name)
		}
	}
}
