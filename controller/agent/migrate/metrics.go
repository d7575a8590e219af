package migrate

import "github.com/prometheus/client_golang/prometheus"

var volumesDesc = prometheus.NewDesc("kubevirt_hpp_migration_volumes",
	"Number of volumes whose PV is or was a hostPath PV, by the verdict of the last migration check.", []string{"verdict"},
	nil)

// Describe implements prometheus.Collector.
func (m *Migrator) Describe(out chan<- *prometheus.Desc) { out <- volumesDesc }

// Collect implements prometheus.Collector. It exports the last check.
func (m *Migrator) Collect(out chan<- prometheus.Metric) {
	counts := m.Report().counts()
	for _, v := range verdicts {
		out <- prometheus.MustNewConstMetric(volumesDesc, prometheus.GaugeValue, float64(counts[v]), string(v))
	}
}
