package orphans

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

type report struct {
	known   map[string]string // from name to reason, at the last check
	event   time.Time         // of the last event
	pending bool              // there are changes since the last event
}

// report logs new orphans and records one event on the node for all, at most one in
// eventEvery. It returns the pause until a pending event can be recorded.
func (o *Checker) report(log klog.Logger, pool *volume.Pool, f findings) (next time.Duration) {
	if !f.checked {
		return checkEvery
	}
	r := o.reported[pool]
	if r == nil {
		r = &report{}
		o.reported[pool] = r
	}
	all, names := map[string]string{}, []string{}
	add := func(name, why string) {
		all[name] = why
		names = append(names, name)
		if r.known[name] != why {
			log.Info("Found an orphan", "name", name, "why", why)
			r.pending = true
		}
	}
	for _, v := range f.volumes {
		add(v.Name, v.Orphan.Why)
	}
	for _, name := range f.directories {
		add(name, "no record and no PV names the directory")
	}
	r.known = all
	if r.pending = r.pending && len(names) > 0; !r.pending {
		return checkEvery
	}
	if left := eventEvery - time.Since(r.event); !r.event.IsZero() && left > 0 {
		return left
	}
	r.event, r.pending = time.Now(), false
	o.Events.Eventf(o.Node, corev1.EventTypeWarning, events.OrphansFound, "pool %s in %s has %s: %s; "+
		"%q in the agent's container shows the reason of each", pool.Name(), pool.Path(), o.counts(f),
		events.FirstNames(names), "hostpath-provisioner inspect "+pool.Path())
	return checkEvery
}

// counts describes the numbers of orphans by kind, and what happens to them.
func (o *Checker) counts(f findings) string {
	var parts []string
	inline := 0
	for _, r := range f.volumes {
		if r.Ephemeral {
			inline++
		}
	}
	if n := len(f.volumes) - inline; n > 0 {
		parts = append(parts, events.Count(n, "volume")+" without a PV")
	}
	if n := len(f.directories); n == 1 {
		parts = append(parts, "1 directory without record and PV")
	} else if n > 1 {
		parts = append(parts, fmt.Sprintf("%d directories without record and PV", n))
	}
	text := strings.Join(parts, " and ")
	switch n := len(f.volumes) - inline + len(f.directories); {
	case text == "" || o.Delete:
	case n == 1:
		text += ", which is kept"
	default:
		text += ", which are kept"
	}
	if inline == 0 {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + events.Count(inline, "inline volume") + " without a pod, deleted when unused"
}

var orphansDesc = prometheus.NewDesc("kubevirt_hpp_orphans",
	"Number of orphans at the last check. The label kind is record (volumes whose PV is gone), directory (provisioned "+
		"directories that no record and no PV names) or pv (PVs whose directory is missing).",
	[]string{"pool", "kind"}, nil)

// Describe implements prometheus.Collector.
func (o *Checker) Describe(out chan<- *prometheus.Desc) { out <- orphansDesc }

// Collect implements prometheus.Collector. It exports the findings of the last check
// without access to the disk, and nothing for a pool that was not ready then.
func (o *Checker) Collect(out chan<- prometheus.Metric) {
	o.mu.Lock()
	last := maps.Clone(o.last)
	o.mu.Unlock()
	for pool, f := range last {
		if !f.checked {
			continue
		}
		for kind, n := range map[string]int{"record": len(f.volumes), "directory": len(f.directories), "pv": len(f.pvs)} {
			out <- prometheus.MustNewConstMetric(orphansDesc, prometheus.GaugeValue, float64(n), pool.Name(), kind)
		}
	}
}
