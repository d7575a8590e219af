package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rules is the directory of the rule files.
const rules = "../../manifests/monitoring/prometheus/"

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// TestRules has promtool check the rules, and run the tests of testdata.
func TestRules(t *testing.T) {
	for _, name := range []string{"agents.yaml", "operator.yaml"} {
		promtool(t, "check", "rules", "--lint-fatal", rules+name)
		promtool(t, "test", "rules", "testdata/"+name)
	}
}

var fires = regexp.MustCompile(`alertname="(\w+)"`)

// Each alert has a test in which it fires after a time in which nothing does.
func TestEachAlertIsTested(t *testing.T) {
	for _, name := range []string{"agents.yaml", "operator.yaml"} {
		var file struct {
			Tests []struct {
				Name  string
				Exprs []struct {
					Samples []struct{ Labels string } `json:"exp_samples"`
				} `json:"promql_expr_test"`
			}
		}
		read(t, filepath.Join("testdata", name), &file)
		tested := map[string]bool{}
		for _, test := range file.Tests {
			fired, quiet := map[string]bool{}, false
			for _, e := range test.Exprs {
				quiet = quiet || len(e.Samples) == 0
				for _, s := range e.Samples {
					if m := fires.FindStringSubmatch(s.Labels); m != nil {
						fired[m[1]] = true
					}
				}
			}
			for alert := range fired {
				tested[alert] = tested[alert] || quiet
			}
		}
		for _, alert := range alertsOf(t, rules+name) {
			if !tested[alert] {
				t.Errorf("testdata/%s: %s has no test that has both times without an alert and the alert", name, alert)
			}
		}
	}
}

// alertsOf lists the alerts of a rule file.
func alertsOf(t *testing.T, file string) (all []string) {
	t.Helper()
	var content struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	read(t, file, &content)
	for _, g := range content.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all = append(all, r.Alert)
			}
		}
	}
	if len(all) == 0 {
		t.Errorf("%s: no alert", file)
	}
	return all
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal([]byte(strings.TrimSpace(string(text))), into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
