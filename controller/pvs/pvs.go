package pvs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// retryFirst and retryLast bound the pause before a failed step is tried
	// again.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// resync is how often PVs are handled again if nothing changed.
	resync = time.Minute
)

// Config is what PVs need. Others and HostPath may be empty, and CSIDriver; all
// else is required.
type Config struct {
	Client kubernetes.Interface
	Node   Node
	Events *events.Recorder
	Pools  *volume.Pools // of the node
	// HostPath is the pool of hostPath PVs, one of Pools; nil: they are not served.
	HostPath *volume.Pool
	// CSIDriver is the driver of the CSI PVs; "": they are not served.
	CSIDriver string
	// Others are the provisioners whose PVs of this node may be taken over; see
	// PVs.Migratable. If there are any, all PVs are swept every few minutes.
	Others []class.Other
	// Changed is called after a volume of the pool was adopted, bound or removed. It
	// must not block.
	Changed func(*volume.Pool)
}

// Node is the node of the PVs, its cluster, and what the agent may do there.
type Node interface {
	Name() string
	Hostname() string // the label kubernetes.io/hostname
	Cluster() string  // the cluster's identity, "" if unknown
	MayPatchPVs() bool
}

// Claims are the claims of this node.
type Claims interface {
	// IsDeleted reports whether the watch has seen the deletion of that claim.
	IsDeleted(types.UID) bool
	// Retry has claims that were refused for want of space seen again.
	Retry()
}

// PVs are the PVs of one node. They keep the records of the pools in step with
// them: a PV that is seen binds its volume, or adopts it where an older provisioner
// made it. PVs that are not what they say are left alone, with an event.
//
// Make them with New. The caller runs the Informer, then calls Sweep, Watch and
// Run, in this order.
type PVs struct {
	client            kubernetes.Interface
	node              Node
	events            *events.Recorder
	pools             *volume.Pools
	backends          []*backend // that are served: one or two
	otherProvisioners []class.Other
	changed           func(*volume.Pool)

	claims     Claims // set by Watch
	informer   cache.SharedIndexInformer
	queue      workqueue.TypedRateLimitingInterface[string] // names of PVs
	wake       chan struct{}                                // to sweep soon
	unlabelled atomic.Pointer[[]corev1.PersistentVolume]    // PVs of ours without our label, as last swept
	migratable atomic.Pointer[[]corev1.PersistentVolume]    // PVs of other provisioners on this node, likewise
}

// New returns PVs that are not watched yet.
func New(c Config) *PVs {
	p := &PVs{
		client: c.Client, node: c.Node, events: c.Events, pools: c.Pools, otherProvisioners: c.Others, changed: c.Changed,
		wake: make(chan struct{}, 1), queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast)),
	}
	p.informer = p.watchPVs()
	if c.HostPath != nil {
		p.backends = append(p.backends, newHostPathBackend(c.Node, c.HostPath))
	}
	if c.CSIDriver != "" {
		p.backends = append(p.backends, newCSIBackend(c.Node, c.CSIDriver, c.Pools))
	}
	p.unlabelled.Store(&[]corev1.PersistentVolume{})
	p.migratable.Store(&[]corev1.PersistentVolume{})
	return p
}

// Informer returns the informer of this node's PVs. Some of its PVs may not be
// saved yet.
func (p *PVs) Informer() cache.SharedIndexInformer { return p.informer }

// Run handles PVs until the context ends.
func (p *PVs) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){p.runWorker, p.runWorker, p.sweepForever, p.rollBackForever} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// SweepSoon has the PVs swept soon: a volume without a record is asked for, and its
// PV may carry no label of ours. It never blocks.
func (p *PVs) SweepSoon() { sleep.Wake(p.wake) }

// Saved returns the PV of that name if it is one of this node's and the API
// server has it. The library puts PVs into the store before they are saved;
// those have no UID yet.
func (p *PVs) Saved(name string) *corev1.PersistentVolume {
	obj, ok, err := p.informer.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	if pv := obj.(*corev1.PersistentVolume); pv.UID != "" {
		return pv
	}
	return nil
}

// IsLocal reports whether the PV of that name is one of this node's that is
// served here.
func (p *PVs) IsLocal(name string) bool {
	pv := p.Saved(name)
	return pv != nil && p.backendOf(pv) != nil
}

// All returns the saved PVs of this node that the loop knows of, from memory: the
// watched ones, and those of the last sweep that have no label of ours yet.
func (p *PVs) All() (all []*corev1.PersistentVolume) {
	seen := map[string]bool{}
	for _, obj := range p.informer.GetStore().List() {
		if pv := obj.(*corev1.PersistentVolume); pv.UID != "" {
			all, seen[pv.Name] = append(all, pv), true
		}
	}
	older := *p.unlabelled.Load()
	for i := range older {
		if !seen[older[i].Name] {
			all = append(all, &older[i])
		}
	}
	return all
}

// Names returns the pool and the directory that a PV names, nil where that is no
// pool of this node, or where PVs of its backend are not served here. What else the
// PV says may contradict it.
func (p *PVs) Names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	b := p.backendOf(pv)
	if b == nil {
		return nil, ""
	}
	return b.names(pv)
}
