package orphans

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// checkEvery is the pause between two checks. Up to half of it is added at
	// random, so that the agents of a cluster spread their requests.
	checkEvery = time.Hour
	// eventEvery is the least pause between two events about a pool's orphans.
	eventEvery = 10 * time.Minute
)

var (
	// firstCheck is the delay of the first check. By then the agent has adopted
	// volumes and finished interrupted calls.
	firstCheck = timing.Scaled(10 * time.Second)
	// checkSoon is the delay of a check after a PV was deleted; those deleted meanwhile share it.
	checkSoon = timing.Scaled(5 * time.Second)
	// checkRetry is the pause after a check that failed in part.
	checkRetry = timing.Scaled(time.Minute)
)

// PVs is what a Checker needs of the node's PVs.
type PVs interface {
	// All returns the saved PVs of this node, from memory.
	All() []*corev1.PersistentVolume
	// Names returns the pool and the directory that a PV names, a nil pool if it is not of this node.
	Names(*corev1.PersistentVolume) (*volume.Pool, string)
	// NamesOther reports whether the PV with the name that the record of a volume of the
	// pool has certainly names another volume.
	NamesOther(pv *corev1.PersistentVolume, pool *volume.Pool, name string) bool
	// LacksRetain returns the record that names a PV with policy Retain and has another policy. ok is
	// false if there is none.
	LacksRetain(pv *corev1.PersistentVolume) (pool *volume.Pool, r record.Record, ok bool)
	// Age returns how long a volume has existed, or less, whatever the clock showed then.
	Age(*volume.Pool, volume.Volume) time.Duration
}

// Config is the configuration of a Checker. New validates it.
type Config struct {
	Client kubernetes.Interface
	Pools  *volume.Pools
	PVs    PVs
	// Events records events on Node, the node of the pools, and on PVs.
	Events *events.Recorder
	Node   *corev1.ObjectReference
	// Delete removes the volumes that removable allows, when they have been orphans
	// for Grace. Without it nothing is removed.
	Delete bool
	Grace  time.Duration
	// Changed is called after a volume of the pool was removed. It must not block; may be nil.
	Changed func(*volume.Pool)
}

// Checker finds volumes whose PV is gone, provisioned directories that no record and
// no PV names, and PVs whose directory is missing. It reports them by metric, by event
// and in the volume's record, which inspect shows. With Config.Delete it removes
// volumes whose PV is gone. Make it with New; call Run once.
//
// A check compares the pools with the PVs that the provisioning loop has in memory,
// and reads from the API server only what does not match.
type Checker struct {
	Config
	deleted chan struct{}
	asked   chan request
	// Used by check alone.
	timers   map[place]timer
	reported map[*volume.Pool]*report

	mu     sync.Mutex // guards the rest
	last   map[*volume.Pool]findings
	unseen map[place]bool // volumes whose PVs went unseen, until their records say so
	// retained are the PVs that went with policy Retain, by the volumes whose records lack it.
	retained map[place]string
}

// New returns a Checker. The error names what is missing or wrong.
func New(c Config) (*Checker, error) {
	switch {
	case c.Client == nil, c.Pools == nil, c.PVs == nil, c.Events == nil, c.Node == nil:
		return nil, errors.New("configure the check for orphans: the client, pools, the provisioning loop, a recorder and " +
			"the node are required")
	case c.Grace < 0:
		return nil, errors.New("configure the check for orphans: the grace period is negative")
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	return &Checker{Config: c, deleted: make(chan struct{}, 1), asked: make(chan request), timers: map[place]timer{},
		reported: map[*volume.Pool]*report{}, last: map[*volume.Pool]findings{}, unseen: map[place]bool{},
		retained: map[place]string{}}, nil
}

// Run checks until the context ends. pvs is the informer behind PVs.All, which the
// caller runs; the deletion of a PV causes a check.
func (o *Checker) Run(ctx context.Context, pvs cache.SharedIndexInformer) {
	if _, err := pvs.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: o.pvDeleted}); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch PVs; orphans are found by the periodic check only")
	}
	for next := firstCheck; ; next = o.check(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case r := <-o.asked:
			r.done <- o.removeNamed(r.ctx, r.volume)
		case <-o.deleted:
			if !sleep.For(ctx, checkSoon) {
				return
			}
		}
	}
}

// pvDeleted requests a check if a PV was deleted and its volume was not. That does
// not happen if a claim with the policy Delete is deleted. A PV that a list lacks went unseen: it may
// have got the policy Retain before, or etcd was restored to before it was made. So did one that is
// not being deleted, and that the watch reports as deleted in the state before: a write took the
// node's label from it, and may have set Retain, too. A PV with Retain may go before its record has
// that: its finalizer is held until then, but it may have none, and the event about a pool that is
// away says how to remove it.
func (o *Checker) pvDeleted(obj any) {
	unknown, unseen := obj.(cache.DeletedFinalStateUnknown)
	if unseen {
		obj = unknown.Obj
	}
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	unseen = unseen || pv.DeletionTimestamp == nil
	if pool, r, lacks := o.PVs.LacksRetain(pv); lacks {
		o.mu.Lock()
		o.retained[place{pool, r.Name}] = pv.Name
		o.mu.Unlock()
	}
	pool, name := o.PVs.Names(pv)
	if pool == nil {
		return
	}
	if _, ok := pool.Cached(name); !ok {
		return
	}
	if unseen {
		o.mu.Lock()
		o.unseen[place{pool, name}] = true
		o.mu.Unlock()
	}
	sleep.Wake(o.deleted)
}

// noteUnseen writes to the records of volumes that their PVs went unseen, or with policy Retain. What
// fails is tried again by the next check.
func (o *Checker) noteUnseen(ctx context.Context) {
	o.mu.Lock()
	unseen, retained := maps.Clone(o.unseen), maps.Clone(o.retained)
	o.mu.Unlock()
	log := klog.FromContext(ctx)
	maps.DeleteFunc(unseen, func(at place, _ bool) bool {
		err := at.pool.Unsee(at.name)
		if err == nil || errors.Is(err, volume.ErrNotFound) {
			return false
		}
		log.Error(err, "Cannot note that a PV went unseen; trying again", "volume", at.name)
		return true
	})
	maps.DeleteFunc(retained, func(at place, pv string) bool {
		err := at.pool.RecordPolicy(at.name, pv, string(corev1.PersistentVolumeReclaimRetain))
		if err == nil || errors.Is(err, volume.ErrNotFound) || errors.Is(err, volume.ErrConflict) {
			return false
		}
		log.Error(err, "Cannot record the policy Retain of a PV that is gone; trying again", "volume", at.name)
		return true
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := range unseen {
		delete(o.unseen, at)
	}
	for at := range retained {
		delete(o.retained, at)
	}
}

// unnoted reports whether noteUnseen has yet to write to the record of a volume.
func (o *Checker) unnoted(at place) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unseen[at] || o.retained[at] != ""
}

// check checks all pools, and returns the pause before the next check.
func (o *Checker) check(ctx context.Context) (next time.Duration) {
	next = checkEvery + rand.N(checkEvery/2)
	o.noteUnseen(ctx)
	pvs := o.localPVs()
	for _, pool := range o.Pools.All() {
		if pool.NotOffered() != "" {
			continue
		}
		log := klog.FromContext(ctx).WithValues("pool", pool.Name())
		found, err := o.find(ctx, pool, pvs)
		if err != nil {
			if ctx.Err() != nil {
				return next
			}
			log.V(1).Info("Cannot check for all orphans; trying again", "err", err)
			next = min(next, checkRetry)
		}
		if o.Delete {
			next = min(next, o.remove(klog.NewContext(ctx, log), pool, &found))
		}
		o.mu.Lock()
		o.last[pool] = found
		o.mu.Unlock()
		next = min(next, o.report(log, pool, found))
	}
	return next
}
