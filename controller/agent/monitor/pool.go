package monitor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

const (
	// probeEvery is the pause between probes of a pool, unless its monitor has another. A probe opens
	// the pool when its disk is back.
	probeEvery = 2 * time.Second
	// purgeAfter is the delay of a purge after a call of Purge. Deletions in that time are in one
	// purge, and new volumes have a PV, so their records are written once.
	purgeAfter = time.Second
	// measureEvery is the longest pause between two measurements of all volumes.
	measureEvery = 10 * time.Minute
	// measureSoonest is the shortest pause, and measureShare bounds the share of time that
	// measurements take: a pause is at least as many times as long as the measurement before it.
	measureSoonest = time.Minute
	measureShare   = 10
)

var (
	// purgeEvery is the pause between two purges without a call of Purge.
	purgeEvery = timing.Scaled(time.Minute)
	// purgeAgain is the pause after such a purge before the next. Until then the
	// filesystem frees blocks in the background, which still count for the quota.
	purgeAgain = timing.Scaled(10 * time.Second)
)

// PoolMonitor probes, recovers, purges and measures one pool.
type PoolMonitor struct {
	Pool *volume.Pool
	// Recorder records events on Node, the node of the pool.
	Recorder clientrecord.EventRecorder
	Node     *corev1.ObjectReference
	// Changed is called when the pool becomes ready or not ready, and after each
	// purge, which may free space. It must not block.
	Changed func()
	// Every is the pause between probes; 0 is probeEvery.
	Every time.Duration
	// RestoresAside is set if no other part brings back volumes whose deletion was not finished,
	// because the agent sees no PVs.
	RestoresAside bool

	lastProbe prometheus.Gauge // time of the last successful probe
	wake      chan struct{}
}

// NewPoolMonitor returns a monitor of a pool that the caller has opened. It reports
// probes to probes, from NewProbes. The caller calls Run once.
func NewPoolMonitor(pool *volume.Pool, recorder clientrecord.EventRecorder, node *corev1.ObjectReference,
	probes *prometheus.GaugeVec, changed func()) *PoolMonitor {
	return &PoolMonitor{Pool: pool, Recorder: recorder, Node: node, Changed: changed,
		lastProbe: probes.WithLabelValues(pool.Name()), wake: make(chan struct{}, 1)}
}

// NewProbes returns the metric of the last successful probe of each pool. It is 0 for
// a pool that was never ready.
func NewProbes() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubevirt_hpp_pool_last_successful_probe_timestamp_seconds",
		Help: "Unix time of the last probe that found the pool ready, 0 if there was none.",
	}, []string{"pool"})
}

// Purge requests a purge of the trash after purgeAfter. It never blocks.
func (m *PoolMonitor) Purge() { sleep.Wake(m.wake) }

// Run monitors the pool until the context ends. It waits for a purge in progress.
func (m *PoolMonitor) Run(ctx context.Context) {
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){m.purge, m.measure, m.recover, m.probe} {
		parts.Go(func() { part(ctx) })
	}
	parts.Wait()
}

// probe logs and records changes of the pool's readiness, identity and damaged
// records. A pool that is ready at the first probe gets no event.
func (m *PoolMonitor) probe(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", m.Pool.Name(), "path", m.Pool.Path())
	ready, warned := true, false
	var reported []string // damaged records
	why := ""             // the pool belongs on other nodes
	id := ""
	for {
		err := m.Pool.Ready()
		if err == nil {
			m.lastProbe.SetToCurrentTime()
			id = m.moved(log, id)
		}
		if why = m.selected(log, why); err != nil && m.Pool.Elsewhere() != "" {
			ready, warned = true, false // until the node has a matching label
			if !sleep.For(ctx, cmp.Or(m.Every, probeEvery)) {
				return
			}
			continue
		}
		switch {
		case err != nil && ready:
			log.Error(err, "The pool is not ready; no volume is created or deleted there until it is")
			m.Recorder.Event(m.Node, corev1.EventTypeWarning, events.PoolNotReady, err.Error())
			m.Changed()
		case err == nil && !ready:
			log.Info("The pool is ready again", "id", m.Pool.ID())
			m.Recorder.Eventf(m.Node, corev1.EventTypeNormal, events.PoolReady, "pool %s in %s is ready again", m.Pool.Name(),
				m.Pool.Path())
			m.Changed()
			m.Purge()
		}
		if damaged := m.Pool.Damaged(); err == nil && !slices.Equal(damaged, reported) {
			if reported = damaged; len(damaged) > 0 {
				log.Info("Records are damaged; the agent does not touch them and their volumes", "records", damaged)
				m.Recorder.Eventf(m.Node, corev1.EventTypeWarning, events.RecordsDamaged,
					"pool %s in %s: the agent cannot read %s and does not touch their volumes: %s; \"hostpath-provisioner inspect "+
						"%s\" in its container shows the reasons",
					m.Pool.Name(), m.Pool.Path(), events.Count(len(damaged), "record"), events.FirstNames(damaged), m.Pool.Path())
			}
		}
		if ready = err == nil; ready && !warned {
			warned = true
			log.Info("The pool is open", "id", m.Pool.ID(), "quotas", m.Pool.Quotas().String())
			for _, w := range m.Pool.Warnings() {
				log.Info("Warning: " + w)
			}
		}
		if !sleep.For(ctx, cmp.Or(m.Every, probeEvery)) {
			return
		}
	}
}

// selected returns why the pool belongs on other nodes, "" if it belongs on this one. It logs a change
// from was, and records an event if the pool is here all the same.
func (m *PoolMonitor) selected(log klog.Logger, was string) string {
	why := m.Pool.NotSelected()
	if why == was {
		return why
	}
	m.Changed()
	switch {
	case why == "":
		log.Info("The pool belongs on this node")
	case m.Pool.Elsewhere() != "":
		log.Info("The pool is none of this node's", "why", why)
	default:
		log.Info("The pool is served although it belongs on other nodes; it gets no new volumes", "why", why)
		m.Recorder.Eventf(m.Node, corev1.EventTypeWarning, events.PoolNotSelected,
			"pool %s in %s is served, because it or its PVs are here, and gets no new volumes: %s",
			m.Pool.Name(), m.Pool.Path(), why)
	}
	return why
}

// moved returns the pool's identity. It logs and records a change from was, which
// happens if the pool was empty and a disk was mounted at its path.
func (m *PoolMonitor) moved(log klog.Logger, was string) string {
	is := m.Pool.ID()
	if was != "" && is != was {
		log.Info("The pool was empty and moved to the disk that is mounted at its path now", "id", is, "was", was)
		m.Recorder.Eventf(m.Node, corev1.EventTypeNormal, events.PoolMoved,
			"pool %s in %s was empty and moved to the disk that is mounted there now: its identity is %s, and was %s",
			m.Pool.Name(), m.Pool.Path(), is, was)
		m.Changed()
	}
	return is
}

// purge empties the trash every purgeEvery, and on request.
func (m *PoolMonitor) purge(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", m.Pool.Name())
	next := purgeEvery
	for {
		more, err := m.Pool.Purge(ctx)
		if err != nil && ctx.Err() == nil && m.Pool.Ready() == nil {
			log.Error(err, "Cannot empty the trash; trying again")
		}
		if err == nil {
			m.Changed()
		}
		if more && err == nil && ctx.Err() == nil {
			log.Info("The trash is not empty yet; the purge continues")
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-m.Pool.RoomWanted():
			next = purgeAgain
		case <-m.wake:
			if !sleep.For(ctx, purgeAfter) {
				return
			}
			select {
			case <-m.wake: // requested during the delay: this purge serves it
			default:
			}
			next = purgeAgain
		case <-time.After(next):
			next = purgeEvery
		}
	}
}

// measure measures the use of volumes for which the filesystem has no counter.
func (m *PoolMonitor) measure(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", m.Pool.Name())
	for {
		begin := time.Now()
		if err := m.Pool.Measure(ctx); err != nil && ctx.Err() == nil && m.Pool.Ready() == nil {
			log.V(1).Info("Cannot measure all volumes", "err", err)
		}
		least := max(measureSoonest, measureShare*time.Since(begin))
		if !sleep.For(ctx, least) {
			return
		}
		for waited := least; waited < measureEvery && !m.Pool.MeasureDue(); waited += measureSoonest {
			if !sleep.For(ctx, measureSoonest) {
				return
			}
		}
	}
}

// SharedWithOS reports whether path, which must exist, is on a filesystem of the operating system:
// that of /, or that of /var/lib/kubelet, from which a container has /etc/hosts.
func SharedWithOS(path string) (bool, error) {
	if _, err := mount.Of(path); err != nil {
		return false, err
	}
	return slices.ContainsFunc([]string{"/", "/etc/hosts", "/var/lib/kubelet"}, func(os string) bool {
		same, err := mount.SameFilesystem(path, os)
		return err == nil && same
	}), nil
}
