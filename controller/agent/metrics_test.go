package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/kubernetes/fake"
)

// ownPrefix is the prefix of the agent's own metrics.
const ownPrefix = "kubevirt_hpp_"

// clientPrefixes are the prefixes of client-go's metrics.
var clientPrefixes = []string{"rest_client_", "workqueue_"}

func hasClientPrefix(name string) bool {
	return slices.ContainsFunc(clientPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// completeAgent returns an agent with every part that exports metrics. Its pool is not open.
func completeAgent(t *testing.T) *Agent {
	t.Helper()
	clean(t)
	dir := t.TempDir()
	pool := filepath.Join(dir, "pool")
	o, err := Parse("v1.2.3", []string{"--node-name=node-01", "--namespace=ns", "--endpoint=unix://" + dir + "/csi.sock", "--pv-dir=" + pool,
		"--provision=hostpath,csi", "--migrate-to-csi=plan", "--metrics-per-volume", "--metrics-address=127.0.0.1:0"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(o, Outside{Client: fake.NewClientset()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// metric is the name and the variable labels of a metric.
type metric struct {
	name   string
	labels []string
}

func (m metric) String() string { return m.name + "{" + strings.Join(m.labels, ",") + "}" }

var descText = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// metricOf parses the text of the description, which has no other accessors.
func metricOf(t *testing.T, d *prometheus.Desc) metric {
	t.Helper()
	m := descText.FindStringSubmatch(d.String())
	if m == nil {
		t.Fatalf("cannot parse %s", d)
	}
	labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	slices.Sort(labels)
	return metric{m[1], labels}
}

func described(c prometheus.Collector) (all []*prometheus.Desc) {
	out := make(chan *prometheus.Desc)
	go func() { c.Describe(out); close(out) }()
	for d := range out {
		all = append(all, d)
	}
	return all
}

// complete adds one series of each metric that the collector describes and has no series of yet.
type complete struct {
	prometheus.Collector
	labels map[*prometheus.Desc]int
}

func (c complete) Collect(out chan<- prometheus.Metric) {
	collected := make(chan prometheus.Metric)
	go func() { c.Collector.Collect(collected); close(collected) }()
	seen := map[*prometheus.Desc]bool{}
	for m := range collected {
		seen[m.Desc()] = true
		out <- m
	}
	for d, n := range c.labels {
		if !seen[d] {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1, slices.Repeat([]string{"x"}, n)...)
		}
	}
}

// lint returns the problems of the collector's metrics, also of those without a series yet.
func lint(t *testing.T, c prometheus.Collector) (problems []string) {
	t.Helper()
	labels := map[*prometheus.Desc]int{}
	for _, d := range described(c) {
		m := metricOf(t, d)
		labels[d] = len(m.labels)
		if !strings.HasPrefix(m.name, ownPrefix) && !hasClientPrefix(m.name) {
			problems = append(problems, m.name+": the prefix is not "+ownPrefix)
		}
		values := slices.Repeat([]string{"x"}, len(m.labels))
		switch vec := c.(type) { // a series has the type of its vector
		case *prometheus.CounterVec:
			vec.WithLabelValues(values...)
		case *prometheus.HistogramVec:
			vec.WithLabelValues(values...)
		case *prometheus.GaugeVec:
			vec.WithLabelValues(values...)
		}
	}
	found, err := testutil.CollectAndLint(complete{c, labels})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		problems = append(problems, p.Metric+": "+p.Text)
	}
	return problems
}

// Every collector of the agent, those of the provisioner library included, follows Prometheus'
// conventions.
func TestMetricsFollowConventions(t *testing.T) {
	for _, c := range completeAgent(t).collectors() {
		for _, problem := range lint(t, c) {
			t.Errorf("%T: %s", c, problem)
		}
	}
}

// The lint rejects what it exists for, also in metrics that have no series.
func TestLintRejectsBadNames(t *testing.T) {
	for name, row := range map[string]struct {
		collector prometheus.Collector
		want      string
	}{
		"prefix":    {prometheus.NewGauge(prometheus.GaugeOpts{Name: "hostpath_pool_ready", Help: "h"}), "prefix"},
		"counter":   {prometheus.NewCounterVec(prometheus.CounterOpts{Name: ownPrefix + "resizes", Help: "h"}, []string{"l"}), "_total"},
		"unit":      {prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: ownPrefix + "call_milliseconds", Help: "h"}, []string{"l"}), "seconds"},
		"no series": {bare{prometheus.NewDesc(ownPrefix+"volumes_total", "h", []string{"pool", "state"}, nil)}, "_total"},
	} {
		if got := strings.Join(lint(t, row.collector), "; "); !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// bare is a collector without a series.
type bare struct{ desc *prometheus.Desc }

func (b bare) Describe(out chan<- *prometheus.Desc) { out <- b.desc }
func (bare) Collect(chan<- prometheus.Metric)       {}

// The version that is exported is the program's.
func TestBuildInfo(t *testing.T) {
	families, err := newRegistry(completeAgent(t).collectors()...).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != ownPrefix+"build_info" {
			continue
		}
		for _, label := range f.GetMetric()[0].GetLabel() {
			if label.GetName() == "version" && label.GetValue() == "v1.2.3" {
				return
			}
		}
		t.Errorf("the version is not v1.2.3: %s", f)
	}
	t.Error("no build_info with the version")
}

// The page names each metric of the agent with its labels, and no other. Those of raw disks and of
// the operator have sections of their own.
func TestMetricsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(text), "\n## Raw disks\n")
	documented := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z_,]*)\\})?` \\|")
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
		slices.Sort(labels)
		documented[metric{m[1], labels}.String()] = true
	}
	exported := map[string]bool{}
	for _, d := range described(newRegistry(completeAgent(t).collectors()...)) {
		m := metricOf(t, d)
		if strings.HasPrefix(m.name, ownPrefix) || hasClientPrefix(m.name) {
			exported[m.String()] = true
			continue
		}
		family, _, _ := strings.Cut(m.name, "_")
		if !strings.Contains(string(text), fmt.Sprintf("`%s_*`", family)) {
			t.Errorf("the page names neither %s nor `%s_*`", m.name, family)
		}
	}
	for name := range exported {
		if !documented[name] {
			t.Errorf("%s is exported, and the page has no row for it", name)
		}
	}
	for name := range documented {
		if !exported[name] {
			t.Errorf("the page names %s, which the agent does not export", name)
		}
	}
}
