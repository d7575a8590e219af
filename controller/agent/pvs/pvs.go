package pvs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/share"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// retryFirst and retryLast bound the pause before a PV is handled again after an error.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// refusedMost bounds the memory for refused changes of PVs, and that for deleted PVs.
	refusedMost = 10_000
	// deletedLast is how long the watch may take to report a PV that this agent deleted.
	deletedLast = 30 * time.Second
)

// resync is how often PVs are handled again if nothing changed.
var resync = timing.Scaled(time.Minute)

// reportAfter is how long a pool is not open before the agent reports it on PVs that the
// Node's annotation gives up. A disk may be mounted late, or hang for a while.
var reportAfter = timing.Scaled(2 * time.Minute)

// Config configures PVs. Others are optional.
type Config struct {
	Client kubernetes.Interface
	Node   Node
	Events *events.Recorder
	Pools  *volume.Pools // of the node
	// Backends are those whose PVs the agent serves. Their pools are among Pools.
	Backends []*backends.Backend
	// Others are the provisioners whose PVs of this node may be migrated; see PVs.Migratable. If
	// there are any, PVs sweeps every few minutes. None of them is among Backends.
	Others []contract.Dialect
	// Changed is called after a volume of the pool was adopted, bound or removed. It
	// must not block.
	Changed func(*volume.Pool)
}

// Node describes the node of the PVs, its cluster, and a permission of the agent.
type Node interface {
	backends.Node
	// ReadAgain and ReadFormer read these two again, unless they were read within maxAge.
	ReadAgain(ctx context.Context, maxAge time.Duration)
	ReadFormer(ctx context.Context, maxAge time.Duration)
	GiveUp() string  // the Node's annotation contract.AnnGiveUp
	Cluster() string // the cluster's identity, "" if unknown
	MayPatchPVs() bool
}

// Claims are the claims of this node.
type Claims interface {
	// Retry makes the provisioner try claims again that it refused for lack of space.
	Retry()
	// SourceChanged places the claims again whose source is the claim of that name.
	SourceChanged(namespace, name string)
	// BoundHere places the claim again, whose PV is known to be on this node by now. It must not block.
	BoundHere(namespace, name string, uid types.UID)
}

// PVs binds the records of the pools to the PVs of one node. It adopts the directories of older
// provisioners. It records an event on a PV that it refuses, and leaves it and its data.
//
// The caller runs the Informer, then calls Sweep, Watch and Run, in this order.
type PVs struct {
	Config
	backends []*backend
	nodes    *otherNodes // that marks of PVs name

	claims   Claims      // set by Watch
	local    cache.Store // claims of this node; set by Watch
	informer cache.SharedIndexInformer
	sharer   share.Sharer
	queue    workqueue.TypedRateLimitingInterface[string] // names of PVs
	wake     chan struct{}                                // receives a request for a sweep
	// PVs of this node without the node label, as of the last sweep
	unlabelled atomic.Pointer[[]corev1.PersistentVolume]
	migratable atomic.Pointer[[]corev1.PersistentVolume] // PVs of other provisioners on this node, as of the last sweep

	recorder *claimRecorder
	refused  *utilcache.LRUExpireCache // errors by the change of a PV; see patchMeta
	deleted  *utilcache.LRUExpireCache // names of PVs; see Deleted

	mu sync.Mutex
	// since when pools that the Node's annotation gives up are not open, by their UUID; guarded by mu
	notOpen map[string]time.Time
	sighted map[place]sighting                  // volumes that were made while the clock was ahead; guarded by mu
	named   map[*volume.Pool]map[string]namedPV // PVs at the last call of Expected; guarded by mu
}

type place struct {
	pool *volume.Pool
	name string
}

// New returns PVs that are not watched yet.
func New(c Config) *PVs {
	p := &PVs{
		Config: c, notOpen: map[string]time.Time{}, sighted: map[place]sighting{},
		named:    map[*volume.Pool]map[string]namedPV{},
		recorder: newClaimRecorder(), refused: utilcache.NewLRUExpireCache(refusedMost),
		deleted: utilcache.NewLRUExpireCache(refusedMost),
		wake:    make(chan struct{}, 1), queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "pvs"}),
	}
	p.nodes = &otherNodes{own: c.Node.Name(), known: map[identity.Name]knownNode{}}
	p.informer = p.watchPVs()
	_ = p.informer.AddIndexers(cache.Indexers{byClaim: claimKeys}) // it has not run
	for _, b := range c.Backends {
		p.backends = append(p.backends, p.backend(b))
	}
	p.unlabelled.Store(&[]corev1.PersistentVolume{})
	p.migratable.Store(&[]corev1.PersistentVolume{})
	return p
}

func (p *PVs) backend(b *backends.Backend) *backend { return &backend{b, p.Node, p.nodes} }

// Informer returns the informer of this node's PVs.
func (p *PVs) Informer() cache.SharedIndexInformer { return p.informer }

// Run handles PVs until the context ends.
func (p *PVs) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){p.runWorker, p.runWorker, p.recordClaims, p.sweepForever,
		p.rollBackForever} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// SweepSoon requests a sweep. A caller that finds no record for a volume uses it: the
// volume's PV may have no node label. It never blocks.
func (p *PVs) SweepSoon() { sleep.Wake(p.wake) }

// Granted is SweepSoon for a caller that has found that the agent may patch PVs now: what was refused
// before is asked for again. It never blocks.
func (p *PVs) Granted() {
	p.refused.RemoveAll(func(any) bool { return true })
	p.SweepSoon()
}

// Deleted records that the API server accepted this agent's deletion of the PV, and that the PV does
// not wait for the agent any more. When the watch reports it as deleted, the API server is not asked
// whether it only lost the label.
func (p *PVs) Deleted(name string) { p.deleted.Add(name, nil, deletedLast) }

// Saved returns the PV of that name as the watch reported it last, nil if there is none.
func (p *PVs) Saved(name string) *corev1.PersistentVolume {
	obj, ok, err := p.informer.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*corev1.PersistentVolume)
}

// IsLocal reports whether there is a watched PV of that name, of a backend that the agent serves.
func (p *PVs) IsLocal(name string) bool {
	pv := p.Saved(name)
	return pv != nil && p.backendOf(pv) != nil
}

// All returns the PVs of this node from memory: the watched ones, and those that
// the last sweep found without the node label.
func (p *PVs) All() (all []*corev1.PersistentVolume) {
	seen := map[string]bool{}
	for _, obj := range p.informer.GetStore().List() {
		pv := obj.(*corev1.PersistentVolume)
		all, seen[pv.Name] = append(all, pv), true
	}
	older := *p.unlabelled.Load()
	for i := range older {
		if !seen[older[i].Name] {
			all = append(all, &older[i])
		}
	}
	return all
}

// Names returns the pool and the directory that a PV names. The pool is nil if this node
// has no such pool or the agent does not serve the PV's backend. A PV of another provisioner
// names its directory, whether the agent serves that provisioner or not. The PV is not validated.
func (p *PVs) Names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if b := p.backendOf(pv); b != nil {
		return b.PoolOf(pv)
	}
	if p.IsForeign(pv) {
		return p.foreign(contract.MadeByOther(pv)).PoolOf(pv)
	}
	return nil, ""
}
