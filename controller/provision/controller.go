package provision

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller/metrics"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Config is what the claim loop needs. New checks it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	// Pool holds the volumes. It is opened by Run, once it is known what the
	// PVs of this node say of it; its Config.Expected should be Expected.
	Pool *volume.Pool
	// Prefix names directories <claim>-<PV> instead of <PV>.
	Prefix bool
	// ReclaimPolicy of new PVs; empty means the class's.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// Workers handle claims, and as many handle PVs; 0 means 4.
	Workers int
	// Metrics of the provisioner library, registered by the caller.
	Metrics metrics.Metrics
	// Opened is run beside the loop from the first opening of the pool on,
	// whether it succeeded or not; may be nil.
	Opened func(context.Context)
	// Deleted is called after a volume went into the trash; may be nil.
	Deleted func()
}

// Controller is the claim loop of one node. Make it with New, then Run it once.
type Controller struct {
	client  kubernetes.Interface
	node    string
	pool    *volume.Pool
	prefix  bool
	policy  corev1.PersistentVolumeReclaimPolicy
	workers int
	metrics metrics.Metrics
	opened  func(context.Context)
	deleted func()

	speaker *speaker
	waiting *waiting
	feed    *feed
	facts   *facts // set by Run before anything reads it

	pvs     cache.SharedIndexInformer
	classes cache.SharedIndexInformer
	older   atomic.Pointer[[]corev1.PersistentVolume] // PVs of ours without our label, as last swept
	status  status
}

// New returns a claim loop that does nothing until it is Run.
func New(c Config) (*Controller, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("a client is required")
	case c.Node == "":
		return nil, errors.New("the node's name is required: set NODE_NAME")
	case c.Pool == nil:
		return nil, errors.New("a pool is required")
	}
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.Opened == nil {
		c.Opened = func(context.Context) {}
	}
	if c.Deleted == nil {
		c.Deleted = func() {}
	}
	ctl := &Controller{
		client: c.Client, node: c.Node, pool: c.Pool, prefix: c.Prefix, policy: c.ReclaimPolicy,
		workers: c.Workers, metrics: c.Metrics, opened: c.Opened, deleted: c.Deleted,
		speaker: newSpeaker(c.Client, c.Node),
	}
	ctl.waiting = newWaiting(func(uids ...types.UID) { ctl.feed.retry(uids...) })
	ctl.older.Store(&[]corev1.PersistentVolume{})
	ctl.status.set(stageStart, errors.New("starting"))
	return ctl, nil
}

// PoolChanged tells the loop that the pool became ready: what had to wait for
// it is tried again at once. It never blocks.
func (c *Controller) PoolChanged() {
	c.waiting.changed()
}

// classNamed returns nil where there is no class of that name yet.
func (c *Controller) classNamed(name string) *storagev1.StorageClass {
	obj, ok, err := c.classes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*storagev1.StorageClass)
}

// savedPV returns the PV of that name if it is one of this node's and the API
// server has it. The library puts PVs into the store before they are saved;
// those have no UID yet.
func (c *Controller) savedPV(name string) *corev1.PersistentVolume {
	obj, ok, err := c.pvs.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	if pv := obj.(*corev1.PersistentVolume); pv.UID != "" {
		return pv
	}
	return nil
}

// here is the place that new PVs name.
func (c *Controller) here() class.Place {
	return class.Place{Node: c.node, Hostname: c.facts.hostname, Pool: c.pool.ID()}
}
