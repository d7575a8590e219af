// Package metrics exports the state of the resource that the operator serves, and of its agents.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// scrapeTimeout bounds the reads of one scrape. They are from the cache.
const scrapeTimeout = 5 * time.Second

// The first name is that of the existing operator.
var (
	crReadyDesc = prometheus.NewDesc("kubevirt_hpp_cr_ready",
		"1 if the HostPathProvisioner is available and not degraded, 0 if it is not, -1 if there is none or if another pod "+
			"of the operator reconciles.", nil, nil)
	agentsDesiredDesc = prometheus.NewDesc("kubevirt_hpp_agents_desired", "Number of nodes that should have an agent.",
		nil, nil)
	agentsReadyDesc = prometheus.NewDesc("kubevirt_hpp_agents_ready", "Number of nodes that have a ready agent.", nil, nil)
	// The agents export the same metric.
	expiryDesc = prometheus.NewDesc("kubevirt_hpp_certificate_expiry_timestamp_seconds",
		"Unix time at which a certificate expires; the label use names what it serves.", []string{"use"}, nil)
)

// State is what is exported.
type State struct {
	// Status is that of the resource that is served; nil if there is none.
	Status *v1beta1.HostPathProvisionerStatus
	// Desired and Ready are numbers of nodes: that should have an agent, and have a ready one.
	Desired, Ready int
	// Expires is when the webhook's certificate does; zero if there is none.
	Expires time.Time
}

// Collector exports the state, which it reads at every scrape.
type Collector struct {
	// Elected is closed when this process reconciles. Before, the cache may not have started.
	Elected <-chan struct{}
	// Read reads the state.
	Read func(context.Context) (State, error)
}

// Describe implements prometheus.Collector.
func (c Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{crReadyDesc, agentsDesiredDesc, agentsReadyDesc, expiryDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. The agents have no series while they are unknown.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	select {
	case <-c.Elected:
	default:
		gauge(crReadyDesc, -1)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := c.Read(ctx)
	if err != nil || s.Status == nil {
		gauge(crReadyDesc, -1)
		return
	}
	gauge(crReadyDesc, crReady(*s.Status))
	gauge(agentsDesiredDesc, float64(s.Desired))
	gauge(agentsReadyDesc, float64(min(s.Ready, s.Desired)))
	if !s.Expires.IsZero() {
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(s.Expires.Unix()), "webhook")
	}
}

// crReady is 1 if a resource with the status is available and not degraded, -1 if it has no
// conditions yet, and otherwise 0.
func crReady(status v1beta1.HostPathProvisionerStatus) float64 {
	if len(status.Conditions) == 0 {
		return -1
	}
	available, degraded := false, false
	for _, c := range status.Conditions {
		switch c.Type {
		case v1beta1.Available:
			available = c.Status == corev1.ConditionTrue
		case v1beta1.Degraded:
			degraded = c.Status == corev1.ConditionTrue
		}
	}
	if available && !degraded {
		return 1
	}
	return 0
}
