package orphans

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	reasonOrphans = "OrphansFound"
	reasonRemoved = "OrphansRemoved"
)

// saidOrphans is what was said of a pool's orphans in this process's life.
type saidOrphans struct {
	known map[string]string // names, with why, at the last look
	event time.Time         // the last one
	owed  bool              // something is new since
}

// say logs what is new, and puts it into one event on the node, at most one each
// orphansSilence. It returns when the next may be written, if one is owed.
func (o *Checker) say(log klog.Logger, pool *volume.Pool, f findings) (next time.Duration) {
	if !f.looked {
		return orphansEvery // what was said before stays said
	}
	s := o.said[pool]
	if s == nil {
		s = &saidOrphans{}
		o.said[pool] = s
	}
	all, names := map[string]string{}, []string{}
	note := func(name, why string) {
		all[name] = why
		names = append(names, name)
		if s.known[name] != why {
			log.Info("An orphan", "name", name, "why", why)
			s.owed = true
		}
	}
	for _, r := range f.volumes {
		note(r.Name, r.Orphan.Why)
	}
	for _, name := range f.directories {
		note(name, "neither a record nor a PV knows the directory")
	}
	s.known = all
	if s.owed = s.owed && len(names) > 0; !s.owed {
		return orphansEvery
	}
	if rest := orphansSilence - time.Since(s.event); !s.event.IsZero() && rest > 0 {
		return rest
	}
	s.event, s.owed = time.Now(), false
	o.Events.Eventf(o.Node, corev1.EventTypeWarning, reasonOrphans, "pool %s in %s has %s: %s; "+
		"%q in the agent's container says why of each", pool.Name(), pool.Path(), o.counts(f), events.FirstNames(names), "hostpath-provisioner inspect "+pool.Path())
	return orphansEvery
}

// counts says how many there are of what nobody wants, and what becomes of it.
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
	if text != "" && !o.Delete {
		text += ", which stay"
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
	"Number of orphans at the last check. The label kind is record (volumes whose PV is gone), directory (provisioned directories that no record and no PV names) or pv (PVs whose directory is missing).",
	[]string{"pool", "kind"}, nil)

// Describe implements prometheus.Collector.
func (o *Checker) Describe(out chan<- *prometheus.Desc) { out <- orphansDesc }

// Collect implements prometheus.Collector. It tells what the last look found,
// and nothing of a pool that was not ready then: disks are left alone.
func (o *Checker) Collect(out chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for pool, f := range o.last {
		if !f.looked {
			continue
		}
		for kind, n := range map[string]int{"record": len(f.volumes), "directory": len(f.directories), "pv": len(f.pvs)} {
			out <- prometheus.MustNewConstMetric(orphansDesc, prometheus.GaugeValue, float64(n), pool.Name(), kind)
		}
	}
}
