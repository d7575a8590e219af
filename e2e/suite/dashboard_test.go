package suite

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/e2e/monitoring"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

var picture = flag.String("picture", "", "file for a picture of the dashboard's figures, as SVG")

// The files of manifests/monitoring.
const (
	dashboardFile = "../../manifests/monitoring/dashboard.json"
	agentRules    = "../../manifests/monitoring/prometheus/agents.yaml"
	operatorRules = "../../manifests/monitoring/prometheus/operator.yaml"
)

// TestDashboard has a Prometheus scrape two agents in whose pools everything happens that an alert
// is about. Each query of the dashboard returns data, each metric of the agents' rules is exported,
// and Prometheus evaluates the rules.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	begin := time.Now()
	first, second := watchedNode(s, "01", "ext4"), watchedNode(s, "02", "xfs")
	prometheus := watch(s, first, second)
	rounds := 4
	if *picture != "" {
		rounds = 30
	}
	for i := range rounds { // the agents and Prometheus run meanwhile
		for _, a := range []*harness.Agent{first, second} {
			claim := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name, Size: fmt.Sprintf("%dMi", 4+2*(i%3))})
			s.Bound(claim)
			if i%5 == 4 {
				s.Delete(claim)
			}
		}
		time.Sleep(2 * time.Second)
	}
	breakOne(s, first)
	s.Create(harness.Claim{Class: harness.ClassCSI, Selected: second.Node.Name, Size: "1Ti"}) // refused
	failing(s, second)
	// After the last start of the first agent: a new process exports no counters of what it has not
	// done.
	gone := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: first.Node.Name})
	pv := s.Bound(gone)
	s.Delete(gone)
	s.Gone(pv.Name)

	panels, err := monitoring.Panels(dashboardFile)
	if err != nil || len(panels) < 12 {
		t.Fatalf("%d panels, %v", len(panels), err)
	}
	s.Eventually("data for each query", func() (err error) {
		for _, p := range panels {
			for _, q := range p.Queries {
				found, e := prometheus.Query(t.Context(), q.Expr)
				if e == nil && len(found) == 0 {
					e = fmt.Errorf("panel %q: no data for %s", p.Title, q.Expr)
				}
				err = errors.Join(err, e)
			}
		}
		return err
	})
	s.Eventually("rules", func() error { return prometheus.Rules(t.Context()) })
	if err := exported(agentRules, metricsOf(s, first)+metricsOf(s, second)); err != nil {
		t.Error(err)
	}
	if *picture != "" {
		if err := draw(t, prometheus, panels, begin); err != nil {
			t.Fatal(err)
		}
	}
}

// watchedNode is an agent of CSI claims with a small disk and all metrics.
func watchedNode(s *harness.Scene, suffix, filesystem string) *harness.Agent {
	s.Helper()
	node := s.Node(suffix)
	s.Disk(filesystem, diskSize).Mount(node.Pool)
	kubelet := s.Path("kubelets", suffix)
	if err := os.MkdirAll(kubelet, 0o750); err != nil {
		s.Fatal(err)
	}
	a := s.Later(node, local(node))
	a.RestartAs(local(node, "--metrics-per-volume", "--metrics-address="+a.Address(8443), "--kubelet-dir="+kubelet))
	a.AwaitReady()
	return a
}

// watch starts a Prometheus that scrapes the agents.
func watch(s *harness.Scene, agents ...*harness.Agent) *monitoring.Prometheus {
	s.Helper()
	var targets []monitoring.Target
	for _, a := range agents {
		targets = append(targets, monitoring.Target{Address: a.Address(9898), Node: strings.TrimPrefix(a.Node.Name, s.Name+"-")})
	}
	p, err := monitoring.Start(filepath.Dir(s.Path("prometheus", "data")), agents[0].Address(9090), targets, agentRules)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.Stop()
		if log, err := os.ReadFile(p.Log); s.Failed() && err == nil {
			s.Logf("the last lines of Prometheus:\n%s", log[max(0, len(log)-2000):])
		}
	})
	return p
}

// breakOne publishes a volume, removes its directory, and starts the agent again: it checks
// published volumes at its start.
func breakOne(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	claim := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name})
	pv := s.Bound(claim)
	handle := pv.Spec.CSI.VolumeHandle
	s.Eventually("record bound", func() error {
		if v := a.Volume(handle); v.State != "bound" {
			return fmt.Errorf("it is %s", v.State)
		}
		return nil
	})
	target := filepath.Join(s.Path("kubelets", a.Node.Name[len(a.Node.Name)-2:]), "pods", string(claim.UID), "volumes", "kubernetes.io~csi", pv.Name, "mount")
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) }) // it may not be mounted
	conn, err := grpc.NewClient("unix://"+a.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	_, err = csi.NewNodeClient(conn).NodePublishVolume(s.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: handle, TargetPath: target, VolumeContext: pv.Spec.CSI.VolumeAttributes,
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(a.Pool, handle)); err != nil {
		s.Fatal(err)
	}
	a.Stop()
	a.Restart()
	a.AwaitReady()
}

// failing has claims of the node fail: a file is where volumes are made.
func failing(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	staging := filepath.Join(a.Pool, ".hostpath-provisioner", "staging")
	if err := os.RemoveAll(staging); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(staging, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	s.Create(harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name})
}

func metricsOf(s *harness.Scene, a *harness.Agent) string {
	s.Helper()
	status, body, err := a.Get("/metrics")
	if err != nil || status != 200 {
		s.Fatalf("metrics: %d, %v", status, err)
	}
	return body
}

var metricName = regexp.MustCompile(`\bkubevirt_hpp_\w+`)

// exported returns nil if each metric in the expressions of the rule file has a series in the text. Those
// of raw disks are of another process, whose own test compares them.
func exported(file, text string) (err error) {
	rules, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var content struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(rules, &content); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, g := range content.Groups {
		for _, r := range g.Rules {
			for _, name := range metricName.FindAllString(strings.ReplaceAll(r.Expr, "cluster:", "cluster_"), -1) {
				names[name] = !strings.HasPrefix(name, "kubevirt_hpp_device")
			}
		}
	}
	maps.DeleteFunc(names, func(_ string, agents bool) bool { return !agents })
	if len(names) < 3 {
		return fmt.Errorf("%s: %d metrics", file, len(names))
	}
	for name := range names {
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(text) {
			err = errors.Join(err, fmt.Errorf("%s: no series of %s", file, name))
		}
	}
	return err
}

// draw writes the picture: what the panels with lines show.
func draw(t *testing.T, p *monitoring.Prometheus, panels []monitoring.Panel, begin time.Time) error {
	var charts []monitoring.Chart
	for _, panel := range panels {
		if panel.Type != "timeseries" {
			continue
		}
		chart := monitoring.Chart{Title: panel.Title, Unit: panel.Unit}
		for _, q := range panel.Queries {
			found, err := p.QueryRange(t.Context(), q.Expr, begin)
			if err != nil {
				return err
			}
			for _, series := range found {
				chart.Lines = append(chart.Lines, monitoring.Line{Name: q.Text(series.Labels), Points: series.Points})
			}
		}
		charts = append(charts, chart)
	}
	return os.WriteFile(*picture, []byte(monitoring.SVG(charts)), 0o644)
}
