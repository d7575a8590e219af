package monitor

import (
	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
)

// Uses exports what every volume uses, asked at every scrape. It is one series
// or two for each volume, so it is for whoever asks for it.
type Uses struct {
	pools  []*volume.Pool
	scrape scrape
}

// NewUses returns a collector for prometheus to register.
func NewUses(pools []*volume.Pool) *Uses { return &Uses{pools: pools} }

var (
	volumeUsedDesc = volumeDesc("used_bytes", "Bytes that a volume uses, from the kernel's quota or from the last walk of its directory.")
	quotaBytesDesc = volumeDesc("quota_bytes", "Quota of a volume in bytes. A volume without a quota has no series.")
)

func volumeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kubevirt_hpp_volume_"+name, help,
		append([]string{"pool", "volume", "namespace", "persistentvolumeclaim"}, labels...), nil)
}

// Describe implements prometheus.Collector.
func (u *Uses) Describe(out chan<- *prometheus.Desc) {
	out <- volumeUsedDesc
	out <- quotaBytesDesc
}

// Collect implements prometheus.Collector. A pool that is not ready exports
// nothing, and a volume that nobody looked at yet no use.
func (u *Uses) Collect(out chan<- prometheus.Metric) {
	nothing := func(*volume.Pool) []prometheus.Metric { return nil } // which kubevirt_hpp_pool_ready says
	u.scrape.each(out, u.pools, collectUses, nothing)
}

func collectUses(p *volume.Pool) (all []prometheus.Metric) {
	uses, err := p.Uses()
	if err != nil {
		return nil
	}
	for _, use := range uses {
		labels := ownerLabels(p.Name(), use.Volume)
		if use.Known {
			all = append(all, prometheus.MustNewConstMetric(volumeUsedDesc, prometheus.GaugeValue, float64(use.Bytes), labels...))
		}
		if use.Exact {
			all = append(all, prometheus.MustNewConstMetric(quotaBytesDesc, prometheus.GaugeValue, float64(use.Volume.Bytes), labels...))
		}
	}
	return all
}

// ownerLabels are the values of the labels that every metric of a volume has. A
// pod's own volume has no claim.
func ownerLabels(pool string, r volume.Record) []string {
	claim := r.Owner.Name
	if r.Ephemeral {
		claim = "" // it is the pod's name
	}
	return []string{pool, r.Name, r.Owner.Namespace, claim}
}
