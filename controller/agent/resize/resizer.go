package resize

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// workers is the number of claims that are handled in parallel.
	workers = 2
	// errorFirst and errorLast bound the pause after a step that the API server failed.
	errorFirst = time.Second
	errorLast  = 30 * time.Second
	// pace is the least pause between two such checks.
	pace = time.Second
)

// checkEvery is the pause between two checks of whether a failed resize became
// possible without a call of SpaceChanged; other programs use the disk too.
var checkEvery = timing.Scaled(10 * time.Second)

// PVs is what a Resizer needs of the node's PVs.
type PVs interface {
	// VolumeOf returns the volume of a PV of this node, and its pool, if the agent accepts both.
	// The error is an ErrNotReady if the pool, which is then returned, is not ready. After any
	// other error the caller ignores the PV; the loop records what users need to know.
	VolumeOf(*corev1.PersistentVolume) (*volume.Pool, volume.Volume, error)
}

// Events records Warnings and Normal events (Note), once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// Config is the configuration of a Resizer. New validates it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	PVs    PVs
	Events Events
	// Changed is called after a volume of the pool grew, which changes the available
	// space. It must not block; may be nil.
	Changed func(*volume.Pool)
}

// Resizer grows the volumes of one node. Make it with New; call Run once.
type Resizer struct {
	Config

	queue   workqueue.TypedRateLimitingInterface[string] // keys of claims
	failing *failing
	held    *claims.Patience // claims whose pool another agent has, or whose size cannot be written
	wake    chan struct{}
	results *prometheus.CounterVec

	claims, pvs cache.Store // set by Run
}

// New returns a Resizer. The error names what is missing.
func New(c Config) (*Resizer, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("configure the resizer: a client is required")
	case c.Node == "":
		return nil, errors.New("configure the resizer: the node's name is required")
	case c.PVs == nil || c.Events == nil:
		return nil, errors.New("configure the resizer: the provisioning loop and a recorder of events are required")
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	return &Resizer{
		Config: c,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](errorFirst, errorLast),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "resizes"}),
		failing: newFailing(), held: claims.NewPatience(), wake: make(chan struct{}, 1), results: newResults(),
	}, nil
}

// SpaceChanged retries volumes that could not grow; the caller calls it when a pool may
// have more space or becomes ready. It never blocks.
func (r *Resizer) SpaceChanged() { sleep.Wake(r.wake) }

// Run grows volumes until the context ends. The caller runs the informers of this node's claims and
// PVs. They only show what to check; before a write, Run reads the objects from the API server.
func (r *Resizer) Run(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	defer r.queue.ShutDown()
	r.claims, r.pvs = claims.GetStore(), pvs.GetStore()
	if _, err := claims.AddEventHandler(informers.OnKey(r.queue.Add)); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch claims; volumes do not grow")
		return
	}
	if _, err := pvs.AddEventHandler(informers.OnChange(r.pvChanged)); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch PVs; volumes do not grow")
		return
	}
	var parts sync.WaitGroup
	defer parts.Wait() // last: the workers end with the queue
	defer r.queue.ShutDown()
	for range workers {
		parts.Go(func() { r.work(ctx) })
	}
	for sleep.OrWoken(ctx, checkEvery, r.wake) {
		for _, key := range r.failing.possible() {
			r.queue.Add(key)
		}
		if !sleep.For(ctx, pace) {
			return
		}
	}
}

func (r *Resizer) pvChanged(obj any) {
	if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
		r.queue.Add(cache.NewObjectName(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name).String())
	}
}

func (r *Resizer) work(ctx context.Context) {
	for {
		key, stop := r.queue.Get()
		if stop {
			return
		}
		switch err := r.sync(ctx, key); {
		case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
			r.queue.Forget(key)
		case apierrors.IsConflict(err):
			r.queue.AddRateLimited(key)
		default:
			klog.FromContext(ctx).Error(err, "Cannot grow a volume yet; trying again", "claim", key)
			r.queue.AddRateLimited(key)
		}
		r.queue.Done(key)
	}
}

// Results of an attempt to grow a volume.
const (
	resultGrown   = "grown"
	resultNoSpace = "no_space"
	resultFailed  = "failed"
)

func newResults() *prometheus.CounterVec {
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubevirt_hpp_resizes_total",
		Help: "Number of attempts to grow a volume, by result.",
	}, []string{"result"})
	for _, result := range []string{resultGrown, resultNoSpace, resultFailed} {
		results.WithLabelValues(result) // so that the first failure is an increase
	}
	return results
}

// Metrics returns what prometheus may collect of the resizer: a counter of its attempts.
func (r *Resizer) Metrics() prometheus.Collector { return r.results }
