package monitor

import (
	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// VolumeCollector exports the use and the quota of every volume, which it reads at every scrape.
// These are two series a volume, so the agent registers it only with --metrics-per-volume.
type VolumeCollector struct {
	pools  []*volume.Pool
	scrape scrape
}

// NewVolumeCollector returns a collector for Prometheus to register.
func NewVolumeCollector(pools []*volume.Pool) *VolumeCollector {
	return &VolumeCollector{pools: pools}
}

var (
	volumeUsedDesc = volumeDesc("used_bytes", "Bytes that a volume uses, from the kernel's quota or from the last walk "+
		"of its directory.")
	quotaBytesDesc = volumeDesc("quota_bytes", "Quota of a volume in bytes. A volume without a quota has no series.")
)

func volumeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kubevirt_hpp_volume_"+name, help,
		append([]string{"pool", "volume", "namespace", "persistentvolumeclaim"}, labels...), nil)
}

// Describe implements prometheus.Collector.
func (c *VolumeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- volumeUsedDesc
	out <- quotaBytesDesc
}

// Collect implements prometheus.Collector. It exports nothing for a pool that is not
// ready, and no use for a volume that was not measured yet.
func (c *VolumeCollector) Collect(out chan<- prometheus.Metric) {
	nothing := func(*volume.Pool) []prometheus.Metric { return nil }
	c.scrape.each(out, c.pools, collectUses, nothing)
}

func collectUses(p *volume.Pool) (all []prometheus.Metric) {
	uses, err := p.Usages()
	if err != nil {
		return nil
	}
	for _, use := range uses {
		labels := ownerLabels(p.Name(), use.Volume)
		if use.Known {
			all = append(all, prometheus.MustNewConstMetric(volumeUsedDesc, prometheus.GaugeValue, float64(use.Bytes),
				labels...))
		}
		if use.Exact {
			all = append(all, prometheus.MustNewConstMetric(quotaBytesDesc, prometheus.GaugeValue, float64(use.Volume.Bytes),
				labels...))
		}
	}
	return all
}

// ownerLabels returns the values of the labels that every metric of a volume has. An
// inline volume has no claim; its owner is a pod.
func ownerLabels(pool string, r record.Record) []string {
	claim := r.Owner.Name
	if r.Ephemeral {
		claim = ""
	}
	return []string{pool, r.Name, r.Owner.Namespace, claim}
}
