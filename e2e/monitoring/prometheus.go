package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Target is an agent that Prometheus scrapes, with the labels that the objects of
// manifests/monitoring set.
type Target struct {
	Address, Node string
}

// Prometheus is a running Prometheus.
type Prometheus struct {
	// Log is the file of its log.
	Log     string
	address string
	cmd     *exec.Cmd
}

// Start starts a Prometheus that scrapes the targets every second and evaluates the rule files. It
// has its data in the directory. The caller calls Stop.
func Start(dir, address string, targets []Target, ruleFiles ...string) (*Prometheus, error) {
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files:\n")
	for _, file := range ruleFiles {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&config, "  - %q\n", path)
	}
	config.WriteString("scrape_configs:\n  - job_name: hostpath-provisioner\n    honor_labels: true\n    static_configs:\n")
	for _, t := range targets {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {node: %q, pod: \"agent-of-%s\", namespace: "+
			"hostpath-provisioner}}\n", t.Address, t.Node, t.Node)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	p := &Prometheus{Log: filepath.Join(dir, "prometheus.log"), address: address}
	log, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p, p.cmd.Start()
}

// Stop ends it.
func (p *Prometheus) Stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// Series is a series of a query's result. An instant query has one point.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is the value at a time.
type Point struct {
	Time, Value float64
}

// Query evaluates an expression now. Series whose value is not a number are left out.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Series, error) {
	return p.ask(ctx, "query", url.Values{"query": {expr}})
}

// QueryRange evaluates an expression every second from a time until now.
func (p *Prometheus) QueryRange(ctx context.Context, expr string, from time.Time) ([]Series, error) {
	unix := func(t time.Time) []string { return []string{strconv.FormatInt(t.Unix(), 10)} }
	return p.ask(ctx, "query_range", url.Values{"query": {expr}, "start": unix(from), "end": unix(time.Now()),
		"step": {"1"}})
}

func (p *Prometheus) ask(ctx context.Context, path string, values url.Values) ([]Series, error) {
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  json.RawMessage
				Values []json.RawMessage
			}
		}
	}
	if err := p.get(ctx, path+"?"+values.Encode(), &answer); err != nil || answer.Error != "" {
		return nil, errors.Join(err, fmt.Errorf("%s: %s", values.Get("query"), answer.Error))
	}
	var all []Series
	for _, r := range answer.Data.Result {
		s := Series{Labels: r.Metric}
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		for _, raw := range r.Values {
			var at float64
			var text string
			if err := json.Unmarshal(raw, &[]any{&at, &text}); err != nil {
				return nil, err
			}
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			if value == value { // NaN is no data
				s.Points = append(s.Points, Point{at, value})
			}
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

// Rules returns an error unless Prometheus evaluates all rules without one.
func (p *Prometheus) Rules(ctx context.Context) error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	err := p.get(ctx, "rules", &answer)
	if err == nil && len(answer.Data.Groups) == 0 {
		err = errors.New("no rules")
	}
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				err = errors.Join(err, fmt.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	return err
}

func (p *Prometheus) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}
