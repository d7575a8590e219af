package metrics

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// reading returns a collector of a resource with these statuses of Available, Progressing and
// Degraded, such as TFF.
func reading(statuses string, err error) Collector {
	elected := make(chan struct{})
	close(elected)
	status := &v1beta1.HostPathProvisionerStatus{}
	types := []v1beta1.ConditionType{v1beta1.Available, v1beta1.Progressing, v1beta1.Degraded}
	for i, s := range statuses {
		is := map[rune]corev1.ConditionStatus{'T': corev1.ConditionTrue, 'F': corev1.ConditionFalse, 'U': corev1.ConditionUnknown}[s]
		status.Conditions = append(status.Conditions, v1beta1.Condition{Type: types[i], Status: is})
	}
	return Collector{elected, func(context.Context) (State, error) { return State{Status: status, Desired: 3, Ready: 2}, err }}
}

func TestReadiness(t *testing.T) {
	for statuses, want := range map[string]string{
		"TFF": "1", "TTF": "1", "TTT": "0", "FTF": "0", "FFT": "0", "UTT": "0", "": "-1",
	} {
		text := `
# HELP kubevirt_hpp_cr_ready 1 if the HostPathProvisioner is available and not degraded, 0 if it is not, -1 if there is none or if another pod of the operator reconciles.
# TYPE kubevirt_hpp_cr_ready gauge
kubevirt_hpp_cr_ready ` + want + "\n"
		if err := testutil.CollectAndCompare(reading(statuses, nil), strings.NewReader(text), "kubevirt_hpp_cr_ready"); err != nil {
			t.Errorf("%q: %v", statuses, err)
		}
	}
}

// Without a leader, a resource or an answer there is one series, and the agents are not counted.
func TestReadinessUnknown(t *testing.T) {
	none := reading("", nil)
	none.Read = func(context.Context) (State, error) { return State{}, nil }
	waiting := reading("TFF", nil)
	waiting.Elected = make(chan struct{})
	for name, c := range map[string]Collector{"no resource": none, "not the leader": waiting, "an error": reading("TFF", errors.New("away"))} {
		if n, got := testutil.CollectAndCount(c), testutil.ToFloat64(c); n != 1 || got != -1 {
			t.Errorf("%s: %d series, the first is %v, want one of -1", name, n, got)
		}
	}
	if n := testutil.CollectAndCount(reading("TFF", nil)); n != 3 {
		t.Errorf("%d series of a resource, want 3", n)
	}
}

func TestMetricsFollowConventions(t *testing.T) {
	problems, err := testutil.CollectAndLint(reading("TFF", nil))
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// The page names each metric of the operator, and no other.
func TestMetricsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The operator\n")
	if !found {
		t.Fatal("the page has no section of the operator")
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	out := make(chan *prometheus.Desc, 10)
	Collector{}.Describe(out)
	close(out)
	exported := 0
	for d := range out {
		exported++
		if name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]; !documented[name] {
			t.Errorf("the page has no row for %s", name)
		}
	}
	if exported != len(documented) {
		t.Errorf("%d metrics are exported, and the page has rows for %d: %v", exported, len(documented), documented)
	}
}
