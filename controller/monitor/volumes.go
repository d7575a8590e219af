package monitor

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/health"
)

const (
	// firstLook comes soon after the start, when the pools had time to open;
	// every other one volumesEvery after the one before.
	firstLook    = 5 * time.Second
	volumesEvery = time.Minute
	// calm is how many looks in a row a volume has to be well before that is
	// said. A disk on the brink is full at one look and not at the next, and
	// everybody whose volume is on it would be told of each.
	calm = 5

	// The reasons are those of the external health monitor.
	reasonAbnormal = "VolumeConditionAbnormal"
	reasonNormal   = "VolumeConditionNormal"
)

// Volumes looks at the published volumes of all pools and says what changes:
// in an event on the claim, or on the pod where the volume is the pod's own,
// in the log, and in metrics. A volume that is well from the start is nothing
// to talk about.
//
// Where a disk ails, every claim on it gets its event, because who owns a
// claim need not be allowed to see a Node. What bounds them is how many
// volumes the pods of one node have, that the same problem is said once, and
// that a volume has to be well for some minutes to be called so.
type Volumes struct {
	pools []*watch
}

// NewVolumes returns what does nothing until it is Run. node is named in the
// events.
func NewVolumes(pools *volume.Pools, recorder record.EventRecorder, node string) *Volumes {
	v := &Volumes{}
	for _, p := range pools.All() {
		v.pools = append(v.pools, &watch{pool: p, recorder: recorder, node: node, said: map[string]*verdict{}})
	}
	return v
}

// Run looks until the context ends. A pool whose disk hangs keeps no other
// from being looked at.
func (v *Volumes) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, w := range v.pools {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
}

// watch is the published volumes of one pool.
type watch struct {
	pool     *volume.Pool
	recorder record.EventRecorder
	node     string
	said     map[string]*verdict // by volume, of those that were called abnormal

	mu     sync.Mutex // guards what follows
	looked bool
	last   []health.Health
}

// verdict is what was said of a volume.
type verdict struct {
	problem health.Problem
	well    int // looks since then at which nothing was wrong
}

func (w *watch) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", w.pool.Name())
	for next := firstLook; sleep.For(ctx, next); next = volumesEvery {
		all, err := w.pool.Health()
		if err != nil {
			log.Error(err, "Cannot look at the published volumes; it is tried again")
			continue
		}
		w.mu.Lock()
		w.looked, w.last = true, all
		w.mu.Unlock()
		w.judge(log, all)
	}
}

// judge says what is new of the volumes, and forgets those that are published
// no more.
func (w *watch) judge(log klog.Logger, all []health.Health) {
	before := w.said
	w.said = map[string]*verdict{}
	for _, h := range all {
		old, known := before[h.Name]
		switch {
		case h.Problem != "" && (!known || old.problem != h.Problem):
			log.Info("A volume is not well", "volume", h.Name, "owner", h.Owner, "problem", h.Problem, "why", h.Message)
			w.event(h.Record, corev1.EventTypeWarning, reasonAbnormal, h.Message)
			w.said[h.Name] = &verdict{problem: h.Problem}
		case h.Problem != "":
			old.well = 0
			w.said[h.Name] = old
		case known:
			if old.well++; old.well < calm {
				w.said[h.Name] = old
				continue
			}
			log.Info("A volume is well again", "volume", h.Name, "owner", h.Owner)
			w.event(h.Record, corev1.EventTypeNormal, reasonNormal, "it is well again")
		}
	}
}

func (w *watch) event(r volume.Record, kind, reason, message string) {
	tellOwner(w.recorder, r, kind, reason, w.node, message)
}

// tellOwner writes an event on whom a volume belongs to. Where the record does
// not name it wholly, as with a sidecar that passes no claim on, the log has to
// do.
func tellOwner(recorder record.EventRecorder, r volume.Record, kind, reason, node, message string) {
	if o := r.Owner; o.Namespace == "" || o.Name == "" || o.UID == "" {
		return
	}
	recorder.Eventf(ownerReference(r), kind, reason, "volume %s on node %s: %s", r.Name, node, message)
}

func ownerReference(r volume.Record) *corev1.ObjectReference {
	kind := "PersistentVolumeClaim"
	if r.Ephemeral {
		kind = "Pod"
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: kind,
		Namespace: r.Owner.Namespace, Name: r.Owner.Name, UID: types.UID(r.Owner.UID)}
}

var (
	publishedDesc = poolDesc("published_volumes", "Number of CSI volumes that were mounted for pods at the last check.")
	abnormalDesc  = volumeDesc("abnormal", "1 for each published volume that had a problem at the last check; the label reason names the problem.", "reason")
)

// Describe implements prometheus.Collector.
func (v *Volumes) Describe(out chan<- *prometheus.Desc) {
	out <- publishedDesc
	out <- abnormalDesc
}

// Collect implements prometheus.Collector. It tells what the last look saw,
// and nothing of a pool that was not looked at yet: disks are left alone.
func (v *Volumes) Collect(out chan<- prometheus.Metric) {
	for _, w := range v.pools {
		w.collect(out)
	}
}

func (w *watch) collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	looked, last := w.looked, w.last
	w.mu.Unlock()
	if !looked {
		return
	}
	out <- prometheus.MustNewConstMetric(publishedDesc, prometheus.GaugeValue, float64(len(last)), w.pool.Name())
	for _, h := range last {
		if h.Problem == "" {
			continue
		}
		out <- prometheus.MustNewConstMetric(abnormalDesc, prometheus.GaugeValue, 1,
			append(ownerLabels(w.pool.Name(), h.Record), string(h.Problem))...)
	}
}
