package nodegone

import "github.com/prometheus/client_golang/prometheus"

// state is the state of a PV whose node is gone.
type state string

// States of PVs. present is that of a PV whose node turned out to be there; it is not counted.
const (
	present state = ""
	// kept is that of a PV that an administrator has to decide about.
	kept state = "kept"
	// removing is that of a PV that is being removed with its claim.
	removing state = "removing"
	// released is that of a PV without a claim that waits for its node.
	released state = "released"
)

// tally counts PVs by their state.
type tally map[state]int

var pvsDesc = prometheus.NewDesc("kubevirt_hpp_gone_node_pvs",
	"Number of PVs whose node has been gone for the grace period: kept until an administrator decides, "+
		"removing with their claims by the policy of the class, released and waiting for the node.", []string{"state"}, nil)

// count replaces the numbers of a node.
func (r *Reconciler) count(node string, t tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(t, present); len(t) == 0 {
		delete(r.counts, node)
		return
	}
	r.counts[node] = t
}

// Describe implements prometheus.Collector.
func (r *Reconciler) Describe(out chan<- *prometheus.Desc) { out <- pvsDesc }

// Collect implements prometheus.Collector. A process that does not lead exports zeros.
func (r *Reconciler) Collect(out chan<- prometheus.Metric) {
	sum := tally{}
	r.mu.Lock()
	for _, t := range r.counts {
		for s, n := range t {
			sum[s] += n
		}
	}
	r.mu.Unlock()
	for _, s := range []state{kept, removing, released} {
		out <- prometheus.MustNewConstMetric(pvsDesc, prometheus.GaugeValue, float64(sum[s]), string(s))
	}
}
