package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// AwaitReady waits until /readyz succeeds.
func (a *Agent) AwaitReady() {
	a.scene.Helper()
	a.scene.Eventually("agent of "+a.Node.Name+" ready", a.Ready)
}

// Ready returns nil if /readyz succeeds.
func (a *Agent) Ready() error {
	if !a.Alive() {
		return errors.New("the agent has ended")
	}
	status, body, err := a.Get("/readyz")
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// AwaitUnready waits until /readyz returns 503 and a text that matches the pattern.
func (a *Agent) AwaitUnready(pattern string) {
	s := a.scene
	s.Helper()
	words := regexp.MustCompile(pattern)
	s.Eventually("agent of "+a.Node.Name+" unready", func() error {
		status, body, err := a.Get("/readyz")
		if err == nil && (status != http.StatusServiceUnavailable || !words.MatchString(body)) {
			err = fmt.Errorf("readyz: %d %q, want 503 and words like %q", status, body, pattern)
		}
		return err
	})
}

// Metric is MetricIn of what the agent exports.
func (a *Agent) Metric(name string, labels ...string) (float64, error) {
	_, body, err := a.Get("/metrics")
	if err != nil {
		return 0, err
	}
	return MetricIn(body, name, labels...)
}

// MetricIn returns the value of the one series that begins with the name and has all the labels,
// such as `state="bound"`.
func MetricIn(metrics, name string, labels ...string) (float64, error) {
	var found []float64
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ok := strings.CutPrefix(series, name)
		if !ok || rest != "" && rest[0] != '{' || !containsAll(rest, labels) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", series, err)
		}
		found = append(found, v)
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("metric %s%v: %d series, want 1", name, labels, len(found))
	}
	return found[0], nil
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// MetricIs returns nil if the metric has the value.
func (a *Agent) MetricIs(want float64, name string, labels ...string) error {
	got, err := a.Metric(name, labels...)
	if err == nil && got != want {
		err = fmt.Errorf("metric %s%v is %v, want %v", name, labels, got, want)
	}
	return err
}

// Report is the output of inspect -o json for a pool.
type Report struct {
	Pool struct {
		Path, ID, Holder string
		Held             bool
		Quotas, NoQuotas string
	}
	Space struct {
		Total, Free, Used, External, Allocated, Available int64
	}
	Volumes []ReportVolume
	Trash   []struct {
		ID, Name string
	}
	Damaged, Warnings []string
	Unrecorded        []struct{ Name string }
}

// ReportVolume is one volume of a Report.
type ReportVolume struct {
	Name, State, PV, ReclaimPolicy string
	Bytes, Quota, Used             int64
	Owner                          struct{ Namespace, Name, UID string }
	Missing, Adopted, Ephemeral    bool
	Migration                      *struct{ Step, To, Stopped string }
	Orphan                         struct {
		Since time.Time
		Why   string
	}
}

// Inspect returns the report of the agent's pool, whether the agent runs or not.
func (a *Agent) Inspect() Report {
	a.scene.Helper()
	return a.scene.Inspect(a.Pool)
}

// Inspect returns the report of the pool in a directory. It ends the test if there is none.
func (s *Scene) Inspect(pool string) Report {
	s.Helper()
	r, err := s.Report(pool)
	s.must("inspect", err)
	return r
}

// Report returns the report of the pool in a directory. The error has the output of inspect.
func (e *Env) Report(pool string) (r Report, err error) {
	out, err := exec.Command(e.Agent, "inspect", "-o", "json", pool).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return r, fmt.Errorf("%s: %w\n%s", pool, err, failed.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

// Volume returns the volume of that name in the pool. It ends the test if there is none.
func (a *Agent) Volume(name string) ReportVolume {
	s := a.scene
	s.Helper()
	r := a.Inspect()
	for _, v := range r.Volumes {
		if v.Name == name {
			return v
		}
	}
	s.Fatalf("no volume %q in %+v", name, r.Volumes)
	return ReportVolume{}
}
