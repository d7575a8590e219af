package health

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// limitEvery is how often adopted volumes without a limit are looked at:
	// what keeps one from it is mostly that it is published.
	limitEvery = time.Minute
	// refusedFor is how long one is left alone that cannot have a limit as it
	// is, unless it grows: to find that out again costs a visit to its files.
	refusedFor = time.Hour

	reasonLimited    = "VolumeLimited"
	reasonNotLimited = "VolumeNotLimited"
)

// Limiter gives adopted volumes their limits while no pod has them, one at a
// time, and says so: in the log, and in an event on the claim, also where one
// cannot have it. A volume that has a limit from the start is nothing to talk
// about.
type Limiter struct {
	pools    []*volume.Pool
	recorder record.EventRecorder
	node     string
	visible  func(volume.Record) bool

	refused map[string]refusal // by pool and volume
}

// refusal is why a volume had no limit when it was looked at last.
type refusal struct {
	until time.Time
	bytes int64 // its size then
	why   string
}

// NewLimiter returns what does nothing until it is Run. node is named in the
// events. visible reports whether all use of a volume shows in mounts of the
// CSI driver: the pods of a hostPath PV are not seen, and its volume is left
// alone.
func NewLimiter(pools *volume.Pools, recorder record.EventRecorder, node string, visible func(volume.Record) bool) *Limiter {
	return &Limiter{pools: pools.All(), recorder: recorder, node: node, visible: visible, refused: map[string]refusal{}}
}

// Run looks until the context ends.
func (l *Limiter) Run(ctx context.Context) {
	for next := firstLook; sleep.For(ctx, next); next = limitEvery {
		before := l.refused
		l.refused = map[string]refusal{}
		for _, p := range l.pools {
			l.look(ctx, p, before)
		}
	}
}

// look goes through one pool. What was refused before, and still is, is kept.
func (l *Limiter) look(ctx context.Context, p *volume.Pool, before map[string]refusal) {
	all, err := p.List()
	if err != nil {
		return // its keeper says so
	}
	for _, v := range all {
		if !v.Adopted || v.LimitID != 0 || v.Limit == volume.LimitNone || v.Missing || ctx.Err() != nil || !l.visible(v.Record) {
			continue
		}
		key := p.Name() + "/" + v.Name
		old, known := before[key]
		if known && old.bytes == v.Bytes && time.Now().Before(old.until) {
			l.refused[key] = old
			continue
		}
		if why := l.limit(ctx, p, v, old.why); why != "" {
			l.refused[key] = refusal{until: time.Now().Add(refusedFor), bytes: v.Bytes, why: why}
		}
	}
}

// limit tries one volume. It returns why that cannot have a limit as it is,
// and "" where it has one or is only to be tried again.
func (l *Limiter) limit(ctx context.Context, p *volume.Pool, v volume.Volume, said string) string {
	log := klog.FromContext(ctx).WithValues("pool", p.Name(), "volume", v.Name, "owner", v.Owner)
	begin := time.Now()
	after, err := p.LimitAdopted(ctx, v.Name)
	switch {
	case err == nil:
		log.Info("An adopted volume is held to its size from now on", "bytes", after.Bytes, "took", time.Since(begin))
		l.event(v.Record, corev1.EventTypeNormal, reasonLimited, "it is held to its size from now on")
	case ctx.Err() != nil, errors.Is(err, volume.ErrInUse), errors.Is(err, volume.ErrNotReady), errors.Is(err, volume.ErrNotFound):
		log.V(1).Info("An adopted volume has no limit yet; it is tried again", "err", err)
	case err.Error() == said:
		return said
	default:
		log.Info("An adopted volume gets no limit", "why", err.Error())
		l.event(v.Record, corev1.EventTypeWarning, reasonNotLimited, err.Error())
		return err.Error()
	}
	return ""
}

func (l *Limiter) event(r volume.Record, kind, reason, message string) {
	tellOwner(l.recorder, r, kind, reason, l.node, message)
}
