package orphans

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// orphansFirst is when the first look comes: what a start adopts and finishes
	// has had time to be so.
	orphansFirst = 10 * time.Second
	// orphansEvery is the pause between two looks where nothing asks for one. As
	// much as half of it is added by chance, so that the nodes of a cluster do
	// not ask the API server all at once.
	orphansEvery = time.Hour
	// orphansSoon is how long after a PV vanished a look comes. More of them in
	// that time are one look.
	orphansSoon = 5 * time.Second
	// orphansRetry is the pause after a look that could not see everything.
	orphansRetry = time.Minute
	// orphansSilence is the least pause between two events about a pool's orphans.
	orphansSilence = 10 * time.Minute
)

// Loop is the claim loop, as far as it is needed here.
type Loop interface {
	// PVs returns the saved PVs of this node that the loop knows of, from memory.
	PVs() []*corev1.PersistentVolume
	// Names returns the pool and the directory that a PV names, nil where that is
	// no pool of this node.
	Names(*corev1.PersistentVolume) (*volume.Pool, string)
}

// Config is what looking for orphans needs. New checks it.
type Config struct {
	Client kubernetes.Interface
	Pools  *volume.Pools
	Loop   Loop
	// Events records events on Node, the node of the pools, and on PVs.
	Events *events.Recorder
	Node   *corev1.ObjectReference
	// Delete removes the volumes that removable lets go, once they have been
	// orphans for Grace. Without it nothing is removed.
	Delete bool
	Grace  time.Duration
	// Changed is called after a volume of the pool was removed. It must not
	// block; may be nil.
	Changed func(*volume.Pool)
}

// Checker looks for what lost its other half: a volume whose PV is gone, a
// directory of a provisioner that neither a record nor a PV knows, a PV whose
// directory is not there. It says so by metric, by event and in the volume's
// record, where inspect finds it, and removes the first of the three where it is
// told to. Make it with New, then Run it once.
//
// Its cost is that of the node's own volumes: it compares what the claim loop
// has in memory with the pools, and asks the API server about what does not fit.
type Checker struct {
	Config
	vanished chan struct{}
	watching map[place]sighting // used by the look alone
	said     map[*volume.Pool]*saidOrphans

	mu   sync.Mutex // guards last
	last map[*volume.Pool]findings
}

// New returns what does nothing until it is Run.
func New(c Config) (*Checker, error) {
	switch {
	case c.Client == nil, c.Pools == nil, c.Loop == nil, c.Events == nil, c.Node == nil:
		return nil, errors.New("look for orphans: the client, pools, the claim loop, a recorder and the node are required")
	case c.Grace < 0:
		return nil, errors.New("look for orphans: the grace period is negative")
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	return &Checker{Config: c, vanished: make(chan struct{}, 1), watching: map[place]sighting{},
		said: map[*volume.Pool]*saidOrphans{}, last: map[*volume.Pool]findings{}}, nil
}

// Run looks until the context ends. pvs is the informer behind Loop.PVs, run by
// the caller: a PV that it loses makes the next look come soon.
func (o *Checker) Run(ctx context.Context, pvs cache.SharedIndexInformer) {
	if _, err := pvs.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: o.lost}); err != nil {
		klog.FromContext(ctx).Error(err, "PVs that vanish are noticed late: cannot watch them")
	}
	for next := orphansFirst; ; next = o.look(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-o.vanished:
			if !sleep.For(ctx, orphansSoon) {
				return
			}
		}
	}
}

// lost asks for a look where a PV went and its volume did not, which does not
// happen when a claim is deleted as usual.
func (o *Checker) lost(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	pool, name := o.Loop.Names(pv)
	if pool == nil {
		return
	}
	if _, ok := pool.Remembered(name); !ok {
		return
	}
	sleep.Wake(o.vanished)
}

// look looks at all pools, and returns when to look again.
func (o *Checker) look(ctx context.Context) (next time.Duration) {
	next = orphansEvery + rand.N(orphansEvery/2)
	seen := o.see()
	for _, pool := range o.Pools.All() {
		if pool.NotOffered() != "" {
			continue
		}
		log := klog.FromContext(ctx).WithValues("pool", pool.Name())
		found, err := o.find(ctx, pool, seen)
		if err != nil {
			if ctx.Err() != nil {
				return next
			}
			log.V(1).Info("Cannot look for all orphans; it is tried again", "err", err)
			next = min(next, orphansRetry)
		}
		if o.Delete {
			next = min(next, o.remove(klog.NewContext(ctx, log), pool, &found))
		}
		o.mu.Lock()
		o.last[pool] = found
		o.mu.Unlock()
		next = min(next, o.say(log, pool, found))
	}
	return next
}
