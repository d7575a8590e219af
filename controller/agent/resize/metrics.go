package resize

import "github.com/prometheus/client_golang/prometheus"

// Results of an attempt to grow a volume.
const (
	resultGrown   = "grown"
	resultNoSpace = "no_space"
	resultFailed  = "failed"
)

func newResults() *prometheus.CounterVec {
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubevirt_hpp_resizes_total",
		Help: "Number of attempts to grow a volume, by result.",
	}, []string{"result"})
	for _, result := range []string{resultGrown, resultNoSpace, resultFailed} {
		results.WithLabelValues(result) // so that the first failure is an increase
	}
	return results
}

// Metrics returns what prometheus may collect of the resizer: a counter of its attempts.
func (r *Resizer) Metrics() prometheus.Collector { return r.results }
