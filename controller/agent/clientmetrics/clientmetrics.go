// Package clientmetrics exports what client-go measures of itself: requests to the API server and
// work queues. Names and labels are those that Kubernetes' own components export;
// k8s.io/component-base, which has the same adapters, would bring a metrics library of its own.
package clientmetrics

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
)

// Metrics are the metrics of client-go.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	queues   queues
}

// New returns metrics to which nothing is reported yet.
func New() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds. Broken down by verb, and host.",
			Buckets: []float64{.005, .025, .1, .5, 2, 8, 30},
		}, []string{"verb", "host"}),
		queues: newQueues(),
	}
}

// Install makes client-go report to the metrics: requests from now on, and the named queues that
// are made from now on. client-go accepts one receiver in a process; later calls have no effect.
func (m *Metrics) Install() {
	metrics.Register(metrics.RegisterOpts{RequestLatency: latency{m.duration}, RequestResult: results{m.requests}})
	workqueue.SetProvider(m.queues)
}

// Collectors returns what prometheus may collect.
func (m *Metrics) Collectors() []prometheus.Collector {
	q := m.queues
	return []prometheus.Collector{
		m.requests, m.duration, q.depth, q.adds, q.queued, q.worked, q.unfinished, q.longest, q.retries,
	}
}

type latency struct{ *prometheus.HistogramVec }

// Observe implements metrics.LatencyMetric.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type results struct{ *prometheus.CounterVec }

// Increment implements metrics.ResultMetric.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.WithLabelValues(code, method, host).Inc()
}
