package monitor

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// Collector exports the metrics of pools, which it reads at every scrape.
type Collector struct {
	pools []*volume.Pool
	// shared reports whether a path is on a filesystem of the operating system.
	shared func(path string) (bool, error)
	scrape scrape

	mu   sync.Mutex
	onOS map[*volume.Pool]bool // the last result of shared; guarded by mu
}

// NewCollector returns a collector for Prometheus to register.
func NewCollector(pools []*volume.Pool, shared func(string) (bool, error)) *Collector {
	return &Collector{pools: pools, shared: shared, onOS: map[*volume.Pool]bool{}}
}

func poolDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kubevirt_hpp_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

// The first name is older than this program and must stay.
var (
	sharedDesc = prometheus.NewDesc("kubevirt_hpp_pool_path_shared_with_os",
		"1 if the pool's path is on the same filesystem as the operating system, 0 if it is not.", []string{"pool"}, nil)
	noQuotaDesc = prometheus.NewDesc("kubevirt_hpp_pool_volumes_without_quota",
		"Number of volumes without a quota on their size.", []string{"pool"}, nil)
	readyDesc     = poolDesc("ready", "1 if the pool is ready, 0 if it is not or if its disk does not respond.")
	totalDesc     = poolDesc("total_bytes", "Size of the pool's filesystem.")
	freeDesc      = poolDesc("free_bytes", "Free bytes of the pool's filesystem.")
	usedDesc      = poolDesc("used_bytes", "Bytes that volumes use, each counted up to its allocated size.")
	allocatedDesc = poolDesc("allocated_bytes", "Bytes allocated to volumes.")
	availableDesc = poolDesc("available_bytes", "Bytes available to new claims, with those of kept volumes that would be removed for them.")
	volumesDesc   = poolDesc("volumes", "Number of volumes by state.", "state")
	missingDesc   = poolDesc("missing_volumes", "Number of volumes whose directory is missing.")
	quotaDesc     = poolDesc("quota_enforced", "1 if the pool enforces quotas, 0 if it does not; the label method names "+
		"the kernel's interface.", "method")
	damagedDesc = poolDesc("damaged_records", "Number of records that the agent cannot read.")
	trashDesc   = poolDesc("trash_entries", "Number of deleted volumes that the last purge left in the trash.")
	keptDesc    = poolDesc("kept_entries", "Number of deleted volumes that are kept for undelete.")
	keptBytes   = poolDesc("kept_bytes", "Bytes that surely become free without the deleted volumes that are kept.")
	stuckDesc   = poolDesc("stuck_trash_entries", "Number of trash entries that the last purge could not remove.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sharedDesc, readyDesc, totalDesc, freeDesc, usedDesc, allocatedDesc,
		availableDesc, quotaDesc, volumesDesc, missingDesc, noQuotaDesc, damagedDesc, trashDesc, keptDesc, keptBytes, stuckDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. For a pool that is not ready it exports
// only that, and whether its path was on the operating system's disk at the last
// check. The latter has no series before the first check. It exports nothing of a pool of other nodes.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	pools := slices.DeleteFunc(slices.Clone(c.pools), func(p *volume.Pool) bool { return p.Elsewhere() != "" })
	c.scrape.each(out, pools, func(pool *volume.Pool) []prometheus.Metric {
		c.checkShared(pool)
		return collectPool(pool)
	}, notReady)
	c.mu.Lock()
	last := maps.Clone(c.onOS)
	c.mu.Unlock()
	for _, pool := range pools {
		onOS, known := last[pool]
		if !known {
			continue
		}
		shared := 0.0
		if onOS {
			shared = 1
		}
		out <- prometheus.MustNewConstMetric(sharedDesc, prometheus.GaugeValue, shared, pool.Name())
	}
}

func (c *Collector) checkShared(pool *volume.Pool) {
	is, err := c.shared(pool.Path())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onOS[pool] = err == nil && is
}

func notReady(pool *volume.Pool) []prometheus.Metric {
	return []prometheus.Metric{prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, 0, pool.Name())}
}

func collectPool(pool *volume.Pool) (all []prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v,
			append([]string{pool.Name()}, labels...)...))
	}
	space, err := pool.Space()
	if err != nil {
		return notReady(pool)
	}
	gauge(readyDesc, 1)
	gauge(totalDesc, float64(space.Total))
	gauge(freeDesc, float64(space.Free))
	gauge(usedDesc, float64(space.Used))
	gauge(allocatedDesc, float64(space.Allocated))
	gauge(availableDesc, float64(space.Obtainable()))
	gauge(damagedDesc, float64(len(pool.Damaged())))
	trash := pool.Trash()
	gauge(trashDesc, float64(trash.Entries))
	gauge(stuckDesc, float64(len(trash.Stuck)))
	kept, bytes := pool.Kept(), int64(0)
	for _, k := range kept {
		bytes += k.Bytes
	}
	gauge(keptDesc, float64(len(kept)))
	gauge(keptBytes, float64(bytes))
	enforced, method := 0.0, pool.Quotas().Method
	if method != quota.MethodNone {
		enforced = 1
	}
	gauge(quotaDesc, enforced, string(method))

	volumes, err := pool.List()
	if err != nil {
		return all
	}
	missing, noQuota := 0, 0
	for _, v := range volumes {
		if v.Missing {
			missing++
		}
		if !v.QuotaEnforced {
			noQuota++
		}
	}
	for state, n := range pool.States() {
		gauge(volumesDesc, float64(n), string(state))
	}
	gauge(missingDesc, float64(missing))
	gauge(noQuotaDesc, float64(noQuota))
	return all
}
