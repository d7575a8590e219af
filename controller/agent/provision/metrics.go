package provision

import (
	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
)

func newRefusals() *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubevirt_hpp_refusals_total",
		Help: "Number of times that a claim of this node was refused, by reason.",
	}, []string{"reason"})
	for _, reason := range []string{
		refusedUnsupported, refusedNoPool, refusedNotReady, refusedWaiting, refusedSpace, refusedQuota, refusedVolume,
		claims.TopicUnserved,
	} {
		refusals.WithLabelValues(reason) // so that the first refusal is an increase
	}
	return refusals
}

// Metrics returns what prometheus may collect of the controller: a counter of its refusals.
func (c *Controller) Metrics() prometheus.Collector { return c.refusals }
