package disks

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/manifests/monitoring"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// The older gauges count devices with a PV, and devices in error; before the first pass there are
// none.
func TestGauges(t *testing.T) {
	c := New(Config{Node: "n"})
	if got := gather(t, c); len(got) != 2 {
		t.Errorf("before the first pass: %v", got)
	}
	c.publish([]Report{
		{Device: "a", State: Available, PV: "pv-a"}, {Device: "b", State: Bound, PV: "pv-b"}, {Device: "c", State: Error},
		{Device: "d", State: Refused}, {Device: "e", State: Busy, PV: "pv-e"}, {Device: "f", State: Gone, PV: "pv-f"},
	})
	for name, want := range map[string]float64{
		"local_pv_provisioner_available_devices{n}": 3, "local_pv_provisioner_error_devices{n}": 1,
		"kubevirt_hpp_devices{n,refused}": 1, "kubevirt_hpp_devices{n,busy}": 1, "kubevirt_hpp_devices{n,wiping}": 0,
		"kubevirt_hpp_devices{n,gone}": 1,
	} {
		if got, has := gather(t, c)[name]; !has || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, has, want)
		}
	}
}

// What is wiped and what is read back count across jobs, each of which begins at zero.
func TestWipedAndVerifiedBytes(t *testing.T) {
	c := New(Config{Node: "n"})
	for _, p := range [][]disk.Progress{{{Wiped: 3}, {Wiped: 5}, {Wiped: 5, Verified: 2}, {Wiped: 5, Verified: 5}}, {{Wiped: 4}, {Wiped: 4, Verified: 4}}} {
		j := &job{}
		for _, step := range p {
			c.progress(j, step)
		}
	}
	got := gather(t, c)
	if got["kubevirt_hpp_device_wiped_bytes_total{n}"] != 9 || got["kubevirt_hpp_device_verified_bytes_total{n}"] != 9 {
		t.Errorf("%v", got)
	}
}

// The alerts' expressions have metrics and states that the process exports.
func TestAlertsOfRawDisks(t *testing.T) {
	exported := map[string]bool{}
	all := make(chan *prometheus.Desc, 100)
	New(Config{Node: "n"}).Describe(all)
	close(all)
	for d := range all {
		exported[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	names := regexp.MustCompile(`\bkubevirt_hpp_device\w*`).FindAllString(monitoring.AgentRules, -1)
	for _, name := range names {
		if !exported[name] {
			t.Errorf("an alert reads %s", name)
		}
	}
	states := regexp.MustCompile(`kubevirt_hpp_devices\{state=~?"([a-z|]+)"`).FindAllStringSubmatch(monitoring.AgentRules, -1)
	for _, m := range states {
		for state := range strings.SplitSeq(m[1], "|") {
			if !slices.Contains(States, State(state)) {
				t.Errorf("an alert reads the state %s", state)
			}
		}
	}
	if len(names) < 6 || len(states) != 4 {
		t.Errorf("%d metrics, %d times a state", len(names), len(states))
	}
}

// The section of the page about raw disks names each metric with its labels, and no other.
func TestMetricsOfRawDisksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Raw disks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, exported []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)\\{([a-z_,]*)\\}` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1]+"{"+m[2]+"}")
	}
	all := make(chan *prometheus.Desc, 100)
	New(Config{Node: "n"}).Describe(all)
	close(all)
	for d := range all { // the text is the only accessor
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		exported = append(exported, m[1]+"{"+m[2]+"}")
	}
	slices.Sort(documented)
	slices.Sort(exported)
	if !slices.Equal(documented, exported) {
		t.Errorf("the page has %q, the process exports %q", documented, exported)
	}
}

func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}
