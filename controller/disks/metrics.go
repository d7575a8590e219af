package disks

import "github.com/prometheus/client_golang/prometheus"

// The first two gauges are those of local-pv-provisioner, with the same meaning.
var (
	availableDevices = prometheus.NewDesc("local_pv_provisioner_available_devices",
		"Devices of the node that have a PV.", []string{"node"}, nil)
	errorDevices = prometheus.NewDesc("local_pv_provisioner_error_devices",
		"Devices of the node that cannot be read, wiped or offered.", []string{"node"}, nil)
	stateDevices = prometheus.NewDesc("kubevirt_hpp_devices",
		"Devices of the node by state.", []string{"node", "state"}, nil)
	wipedBytes = prometheus.NewDesc("kubevirt_hpp_device_wiped_bytes_total",
		"Bytes that were written or discarded to wipe devices.", []string{"node"}, nil)
	verifiedBytes = prometheus.NewDesc("kubevirt_hpp_device_verified_bytes_total",
		"Bytes of wiped devices that were read back.", []string{"node"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Controller) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{availableDevices, errorDevices, stateDevices, wipedBytes, verifiedBytes} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It exports no gauges before the first pass.
func (c *Controller) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(wipedBytes, prometheus.CounterValue, float64(c.wiped.Load()), c.node)
	out <- prometheus.MustNewConstMetric(verifiedBytes, prometheus.CounterValue, float64(c.verified.Load()), c.node)
	if c.Ready() != nil {
		return
	}
	count := map[State]int{}
	withPV := 0
	for _, r := range c.Reports() {
		count[r.State]++
		if r.PV != "" && r.State != Error && r.State != Gone {
			withPV++
		}
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{c.node}, labels...)...)
	}
	gauge(availableDevices, withPV)
	gauge(errorDevices, count[Error])
	for _, s := range States {
		gauge(stateDevices, count[s], string(s))
	}
}
