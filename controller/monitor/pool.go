package monitor

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// lookEvery is how often a pool is asked whether it is ready, which opens
	// it again once its disk is back.
	lookEvery = 2 * time.Second
	// purgeEvery is how often the trash is looked at where nobody said that
	// something was thrown away.
	purgeEvery = time.Minute
	// purgeAfter is how long after somebody said so.
	purgeAfter = time.Second
	// purgeAgain is how long after a pass that was asked for comes another: what the
	// filesystem frees in the background keeps its limit until then.
	purgeAgain = 10 * time.Second
	// measureEvery is the longest pause between two walks through all volumes.
	measureEvery = 10 * time.Minute
	// measureSoonest is the shortest, where the last walk is out of date, and
	// measureShare how many times as long as a walk it is at least.
	measureSoonest = time.Minute
	measureShare   = 10

	reasonNotReady = "PoolNotReady"
	reasonReady    = "PoolReady"
	reasonMoved    = "PoolMoved"
	reasonDamaged  = "RecordsDamaged"
)

// Keeper looks after one pool that was opened before.
type Keeper struct {
	Pool *volume.Pool
	// Recorder writes events on Node, the node of the pool.
	Recorder record.EventRecorder
	Node     *corev1.ObjectReference
	// Changed is called when the pool becomes ready or ceases to be, and when
	// the trash gave space back. It must not block.
	Changed func()

	kick chan struct{}
}

// NewKeeper returns a keeper that does nothing until it is Run.
func NewKeeper(pool *volume.Pool, recorder record.EventRecorder, node *corev1.ObjectReference, changed func()) *Keeper {
	return &Keeper{Pool: pool, Recorder: recorder, Node: node, Changed: changed, kick: make(chan struct{}, 1)}
}

// Purge asks for the trash to be emptied soon. It never blocks.
func (k *Keeper) Purge() {
	sleep.Wake(k.kick)
}

// Run looks after the pool until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	go k.purge(ctx)
	go k.measure(ctx)
	k.look(ctx)
}

// look follows the pool's readiness. A pool that is ready from the start is
// nothing to talk about; one that is not, is.
func (k *Keeper) look(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", k.Pool.Name(), "path", k.Pool.Path())
	ready, warned := true, false
	var said []string // damaged records
	id := ""
	for {
		err := k.Pool.Ready()
		if err == nil {
			id = k.moved(log, id)
		}
		switch {
		case err != nil && ready:
			log.Error(err, "The pool is not ready; nothing is created or removed there until it is")
			k.Recorder.Event(k.Node, corev1.EventTypeWarning, reasonNotReady, err.Error())
			k.Changed()
		case err == nil && !ready:
			log.Info("The pool is ready again", "id", k.Pool.ID())
			k.Recorder.Eventf(k.Node, corev1.EventTypeNormal, reasonReady, "pool %s in %s is ready again", k.Pool.Name(), k.Pool.Path())
			k.Changed()
			k.Purge()
		}
		if damaged := k.Pool.Damaged(); err == nil && !slices.Equal(damaged, said) {
			if said = damaged; len(damaged) > 0 {
				log.Info("Records are damaged; they and their volumes are left alone", "records", damaged)
				k.Recorder.Eventf(k.Node, corev1.EventTypeWarning, reasonDamaged, "pool %s in %s: %s cannot be read, so that they and their volumes are left alone: %s",
					k.Pool.Name(), k.Pool.Path(), events.Count(len(damaged), "record"), events.FirstNames(damaged))
			}
		}
		if ready = err == nil; ready && !warned {
			warned = true
			log.Info("The pool is open", "id", k.Pool.ID(), "limits", k.Pool.Quotas().String())
			for _, w := range k.Pool.Warnings() {
				log.Info("Warning: " + w)
			}
		}
		if !sleep.For(ctx, lookEvery) {
			return
		}
	}
}

// moved returns the pool's identity, and reports a pool that gave up the one it
// had: it was empty, and a disk was mounted over it.
func (k *Keeper) moved(log klog.Logger, was string) string {
	is := k.Pool.ID()
	if was != "" && is != was {
		log.Info("The pool was empty and moved to the disk that is mounted at its path now", "id", is, "was", was)
		k.Recorder.Eventf(k.Node, corev1.EventTypeNormal, reasonMoved,
			"pool %s in %s was empty and moved to the disk that is mounted there now: it is %s, and was %s", k.Pool.Name(), k.Pool.Path(), is, was)
		k.Changed()
	}
	return is
}

// purge empties the trash whenever there is some.
func (k *Keeper) purge(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", k.Pool.Name())
	next := purgeEvery
	for {
		more, err := k.Pool.Purge(ctx)
		if err != nil && ctx.Err() == nil && k.Pool.Ready() == nil {
			log.Error(err, "Cannot empty the trash; it is tried again")
		}
		if err == nil {
			k.Changed()
		}
		if more && err == nil && ctx.Err() == nil {
			log.Info("The trash is not empty yet; purging it goes on")
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-k.kick:
			// What is deleted at once goes in one pass, and what was just made has
			// its PV by then, and is written with it.
			if !sleep.For(ctx, purgeAfter) {
				return
			}
			select {
			case <-k.kick: // this pass is as good as the next
			default:
			}
			next = purgeAgain
		case <-time.After(next):
			next = purgeEvery
		}
	}
}

// measure learns what volumes use where no limit counts it.
func (k *Keeper) measure(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", k.Pool.Name())
	for {
		begin := time.Now()
		if err := k.Pool.Measure(ctx); err != nil && ctx.Err() == nil && k.Pool.Ready() == nil {
			log.V(1).Info("Cannot measure all volumes", "err", err)
		}
		least := max(measureSoonest, measureShare*time.Since(begin))
		if !sleep.For(ctx, least) {
			return
		}
		for waited := least; waited < measureEvery && !k.Pool.MeasureDue(); waited += measureSoonest {
			if !sleep.For(ctx, measureSoonest) {
				return
			}
		}
	}
}
