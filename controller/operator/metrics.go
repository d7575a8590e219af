package operator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// scrapeTimeout bounds the reads of one scrape. They are from the cache.
const scrapeTimeout = 5 * time.Second

// The first name is that of the existing operator.
var (
	crReadyDesc = prometheus.NewDesc("kubevirt_hpp_cr_ready",
		"1 if the HostPathProvisioner is available and not degraded, 0 if it is not, -1 if there is none or if another pod of the operator reconciles.", nil, nil)
	agentsDesiredDesc = prometheus.NewDesc("kubevirt_hpp_agents_desired", "Number of nodes that should have an agent.", nil, nil)
	agentsReadyDesc   = prometheus.NewDesc("kubevirt_hpp_agents_ready", "Number of nodes that have a ready agent.", nil, nil)
)

// collector exports the state of the resource that is served, and of its agents. It reads both at every scrape.
type collector struct {
	// elected is closed when this process reconciles. Until then nothing is read: the cache may not have started.
	elected <-chan struct{}
	// read returns the resource that is served, one without a UID if there is none.
	read func(context.Context) (*v1beta1.HostPathProvisioner, agents, error)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{crReadyDesc, agentsDesiredDesc, agentsReadyDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. The agents have no series while they are unknown.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	select {
	case <-c.elected:
	default:
		gauge(crReadyDesc, -1)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	cr, a, err := c.read(ctx)
	if err != nil || cr.UID == "" {
		gauge(crReadyDesc, -1)
		return
	}
	gauge(crReadyDesc, crReady(cr.Status))
	gauge(agentsDesiredDesc, float64(a.desired))
	gauge(agentsReadyDesc, float64(min(a.ready, a.desired)))
}

// crReady is 1 if a resource with the status is available and not degraded, -1 if it has no conditions yet, and otherwise 0.
func crReady(status v1beta1.HostPathProvisionerStatus) float64 {
	if len(status.Conditions) == 0 {
		return -1
	}
	available, degraded := false, false
	for _, c := range status.Conditions {
		switch c.Type {
		case v1beta1.Available:
			available = c.Status == yes
		case v1beta1.Degraded:
			degraded = c.Status == yes
		}
	}
	if available && !degraded {
		return 1
	}
	return 0
}

// observed returns what the collector exports.
func (r *Reconciler) observed(ctx context.Context) (*v1beta1.HostPathProvisioner, agents, error) {
	cr, err := r.served(ctx)
	if err != nil {
		return cr, agents{}, err
	}
	a, err := r.agents(ctx)
	return cr, a, err
}
