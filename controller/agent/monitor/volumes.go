package monitor

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/health"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// normalAfter is the number of checks in a row without a problem after which a
	// volume is normal again. An almost full disk is full at one check and not at
	// the next; each change would be an event for every claim on it.
	normalAfter = 5
)

var (
	// firstCheck is the delay of the first check, in which the pools open.
	firstCheck = timing.Scaled(5 * time.Second)
	// volumesEvery is the pause between two checks.
	volumesEvery = timing.Scaled(time.Minute)
)

// VolumeMonitor checks the published volumes of all pools every minute. It logs a
// change of a volume's condition, records it on the claim, or on the pod of an inline
// volume, and exports metrics. A volume that never had a problem gets no event.
//
// If a disk has a problem, every claim on it gets an event, because the owner of a
// claim may not be allowed to see Nodes.
type VolumeMonitor struct {
	pools []*poolVolumes
}

// NewVolumeMonitor returns a monitor of the pools. Events name the node. The caller calls Run once.
func NewVolumeMonitor(pools *volume.Pools, recorder clientrecord.EventRecorder, node string) *VolumeMonitor {
	m := &VolumeMonitor{}
	for _, p := range pools.All() {
		m.pools = append(m.pools, &poolVolumes{pool: p, recorder: recorder, node: node, abnormal: map[string]*condition{}})
	}
	return m
}

// Run checks volumes until the context ends. Each pool has its own loop, so that a
// disk that does not respond does not delay the checks of others.
func (m *VolumeMonitor) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range m.pools {
		wg.Go(func() { p.run(ctx) })
	}
	wg.Wait()
}

type poolVolumes struct {
	pool     *volume.Pool
	recorder clientrecord.EventRecorder
	node     string
	abnormal map[string]*condition // by volume; used by run alone

	mu      sync.Mutex // guards checked and last
	checked bool
	last    []health.Health // of the last check
}

// condition is the recorded condition of an abnormal volume.
type condition struct {
	problem health.Problem
	normal  int // checks in a row without a problem
}

func (p *poolVolumes) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", p.pool.Name())
	for next := firstCheck; sleep.For(ctx, next); next = volumesEvery {
		all, err := p.pool.Health()
		if err != nil {
			log.Error(err, "Cannot check the published volumes; trying again")
			continue
		}
		p.mu.Lock()
		p.checked, p.last = true, all
		p.mu.Unlock()
		p.compare(log, all)
	}
}

// compare records conditions that changed since the last check. It forgets volumes
// that are not published any more.
func (p *poolVolumes) compare(log klog.Logger, all []health.Health) {
	before := p.abnormal
	p.abnormal = map[string]*condition{}
	for _, h := range all {
		old, known := before[h.Name]
		switch {
		case h.Problem != "" && (!known || old.problem != h.Problem):
			log.Info("A volume has a problem", "volume", h.Name, "owner", h.Owner, "problem", h.Problem, "message", h.Message)
			p.record(h.Record, corev1.EventTypeWarning, events.VolumeConditionAbnormal, h.Message)
			p.abnormal[h.Name] = &condition{problem: h.Problem}
		case h.Problem != "":
			old.normal = 0
			p.abnormal[h.Name] = old
		case known:
			if old.normal++; old.normal < normalAfter {
				p.abnormal[h.Name] = old
				continue
			}
			log.Info("A volume has no problem any more", "volume", h.Name, "owner", h.Owner)
			p.record(h.Record, corev1.EventTypeNormal, events.VolumeConditionNormal, "the problem is gone")
		}
	}
}

// record records an event on the owner of a volume. It does nothing if the record does not name the
// owner completely, as after a sidecar that does not pass the claim on.
func (p *poolVolumes) record(r record.Record, kind, reason, message string) {
	if o := r.Owner; o.Namespace == "" || o.Name == "" || o.UID == "" {
		return
	}
	p.recorder.Eventf(ownerReference(r), kind, reason, "volume %s on node %s: %s", r.Name, p.node, message)
}

func ownerReference(r record.Record) *corev1.ObjectReference {
	kind := "PersistentVolumeClaim"
	if r.Ephemeral {
		kind = "Pod"
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: kind,
		Namespace: r.Owner.Namespace, Name: r.Owner.Name, UID: types.UID(r.Owner.UID)}
}

var (
	publishedDesc = poolDesc("published_volumes", "Number of CSI volumes that were mounted for pods at the last check.")
	abnormalDesc  = volumeDesc("abnormal", "1 for each published volume that had a problem at the last check; the label "+
		"reason names the problem.", "reason")
)

// Describe implements prometheus.Collector.
func (m *VolumeMonitor) Describe(out chan<- *prometheus.Desc) {
	out <- publishedDesc
	out <- abnormalDesc
}

// Collect implements prometheus.Collector. It exports the results of the last check
// without access to the disk, and nothing for a pool that was not checked yet.
func (m *VolumeMonitor) Collect(out chan<- prometheus.Metric) {
	for _, p := range m.pools {
		p.collect(out)
	}
}

func (p *poolVolumes) collect(out chan<- prometheus.Metric) {
	p.mu.Lock()
	checked, last := p.checked, p.last
	p.mu.Unlock()
	if !checked {
		return
	}
	out <- prometheus.MustNewConstMetric(publishedDesc, prometheus.GaugeValue, float64(len(last)), p.pool.Name())
	for _, h := range last {
		if h.Problem == "" {
			continue
		}
		out <- prometheus.MustNewConstMetric(abnormalDesc, prometheus.GaugeValue, 1,
			append(ownerLabels(p.pool.Name(), h.Record), string(h.Problem))...)
	}
}
