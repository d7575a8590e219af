package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are those of one agent.
type Metrics struct {
	Agent Agent
	// Text is what the agent served.
	Text []byte
	// Unknown says why there are none; "" if there are.
	Unknown string

	families map[string]*dto.MetricFamily
}

// Sample is one value of a metric.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// ParseMetrics returns the metrics of a text in the exposition format of Prometheus.
func ParseMetrics(agent Agent, text []byte) Metrics {
	m := Metrics{Agent: agent, Text: text}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if m.families = families; err != nil {
		m.Unknown = fmt.Sprintf("cannot read its metrics: %v", err)
	}
	return m
}

// Samples returns the gauges of a name.
func (m *Metrics) Samples(name string) (all []Sample) {
	for _, metric := range m.families[name].GetMetric() {
		s := Sample{Labels: map[string]string{}, Value: metric.GetGauge().GetValue()}
		for _, l := range metric.GetLabel() {
			s.Labels[l.GetName()] = l.GetValue()
		}
		all = append(all, s)
	}
	return all
}

// Metrics reads the metrics of an agent through the API server, which connects to the pod (get
// pods/proxy).
func (r Reader) Metrics(ctx context.Context, a Agent) Metrics {
	switch {
	case a.Unmarked == rootless: // a tenant's pod may serve what it likes about the volumes of others
		return Metrics{Agent: a, Unknown: "its metrics: pod " + a.Pod + " is " + rootless}
	case a.NoMetrics != "":
		return Metrics{Agent: a, Unknown: a.NoMetrics}
	case a.Node == "" || a.MetricsPort == "":
		return Metrics{Agent: a, Unknown: "its pod does not run"}
	}
	name := a.Pod + ":" + a.MetricsPort
	if a.MetricsTLS {
		name = "https:" + name
	}
	text, err := r.Client.CoreV1().RESTClient().Get().Namespace(a.Namespace).Resource("pods").Name(name).
		SubResource("proxy").Suffix("metrics").DoRaw(ctx)
	if err != nil {
		return Metrics{Agent: a, Unknown: noMetrics(a, err)}
	}
	return ParseMetrics(a, text)
}

// noMetrics returns why the metrics could not be read. It leaves out names and addresses, so that the
// reason is the same for all nodes that have it.
func noMetrics(a Agent, err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return mayNot + "get pods/proxy in the namespace " + a.Namespace
	case errors.Is(err, context.DeadlineExceeded):
		return "its metrics: no answer in time (--timeout)"
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return fmt.Sprintf("its metrics: the API server does not reach the pod, code %d", status.Status().Code)
	case errors.As(err, &status):
		return fmt.Sprintf("its metrics: the answer has the code %d", status.Status().Code)
	}
	return fmt.Sprintf("cannot read its metrics: %v", err)
}

// metricsOf sets where the agent serves its metrics.
func (a *Agent) metricsOf(flag func(flag, variable string) (string, bool), driverOnly bool) {
	plain, https := ":9898", ""
	if a.Process == DiskAgent {
		plain = ":8080"
		if v, set := flag("metrics-addr", "LP_METRICS_ADDR"); set {
			plain = v
		}
	} else {
		if driverOnly {
			plain = ""
		}
		if v, set := flag("http-address", "HPP_HTTP_ADDRESS"); set {
			plain = v
		}
		if driverOnly && plain == "" {
			https = ":8443"
		}
		if v, set := flag("metrics-address", "HPP_METRICS_ADDRESS"); set {
			https = v
		}
		if v, _ := flag("metrics-auth", "HPP_METRICS_AUTH"); v == "token" {
			a.NoMetrics = "its metrics are for tokens only (--metrics-auth=token), and the API server's proxy passes none on"
			return
		}
	}
	address := plain
	if address == "" || address == "0" {
		address, a.MetricsTLS = https, true
	}
	if a.MetricsPort = address[strings.LastIndex(address, ":")+1:]; a.MetricsPort == "" || address == "0" {
		a.MetricsPort, a.NoMetrics = "", "it serves no metrics"
	}
}

// atOnce is how many agents are asked for their metrics at the same time.
const atOnce = 64

// AllMetrics reads the metrics of the agents, in their order, and waits for each as long as timeout.
// It asks no more of them once the API server has refused the first.
func (r Reader) AllMetrics(ctx context.Context, of []Agent, timeout time.Duration) []Metrics {
	all := make([]Metrics, len(of))
	read := func(i int) {
		within, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		all[i] = r.Metrics(within, of[i])
	}
	slots := make(chan struct{}, atOnce)
	var asks sync.WaitGroup
	for i := range of {
		if i == 0 {
			read(0)
			continue
		}
		if first := all[0]; strings.HasPrefix(first.Unknown, mayNot) && of[i].Namespace == of[0].Namespace {
			all[i] = Metrics{Agent: of[i], Unknown: first.Unknown}
			continue
		}
		asks.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			read(i)
		})
	}
	asks.Wait()
	return all
}
