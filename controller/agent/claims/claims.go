package claims

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// Resync is the interval at which the informers deliver unchanged claims and PVs
// again. It is short because they hold only those of this node, and because this node
// may have to take over from an agent that is gone.
var Resync = timing.Scaled(time.Minute)

// Config has the dependencies of Claims. All fields are required but Space and Agents.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	Events *events.Recorder
	// Dialects are those of the provisioners that this node serves, by the name of the
	// provisioner. The CSI driver has the zero Dialect.
	Dialects map[string]contract.Dialect
	PVs      interface {
		// IsLocal reports whether the PV with that name is on this node.
		IsLocal(pv string) bool
		// CopiesHere reports whether the claim that this one names as its source is bound to a PV of this
		// node, or the copy has begun here. It must not block.
		CopiesHere(*corev1.PersistentVolumeClaim) bool
	}
	// Refusal returns why this node never serves claims of a class although it
	// has the pool of the class, or "" if it serves them.
	Refusal func(*storagev1.StorageClass) string
	// Space is nil if this node publishes none for the scheduler.
	Space *Space
	// Agents returns the number of agents that check claims which none of them serves, 0 if it is not
	// known: then each checks all.
	Agents func(context.Context) int
}

// Claims filters the claims of one node from those of the cluster, and watches their
// classes. Create it with New, then call Watch once, before any other method.
type Claims struct {
	config   Config
	placer   *placer
	filter   *filter
	retries  *retries
	unserved *unservedRecorder // set by Watch
	// Set by Watch; ends reads of single claims.
	ctx context.Context //nolint:containedctx // it ends with the process

	classes cache.SharedIndexInformer
}

// New returns the claims of a node. It watches nothing until Watch.
func New(config Config) *Claims {
	c := &Claims{config: config, classes: storageinformers.NewStorageClassInformer(config.Client, Resync,
		cache.Indexers{})}
	_ = c.classes.SetTransform(informers.WithoutManagedFields) // it has not run
	c.placer = &placer{node: config.Node, dialects: config.Dialects, class: c.Class, isLocalPV: config.PVs.IsLocal,
		copiesHere: config.PVs.CopiesHere,
		offered:    func(sc *storagev1.StorageClass) bool { return config.Refusal(sc) == "" }}
	if config.Space != nil {
		c.placer.published = config.Space.Provisioner
	}
	from := source{
		list: func(ctx context.Context, f func(*corev1.PersistentVolumeClaim) bool) (string, error) {
			return live.ListClaims(ctx, config.Client, f)
		},
		watch: config.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).Watch,
	}
	l := listener{
		placed: func(claim *corev1.PersistentVolumeClaim, where placement) { c.unserved.update(claim, where) },
		forget: func() { c.unserved.forget() },
	}
	c.filter = newFilter(from, c.placer, l, func(namespace, name string) (*corev1.PersistentVolumeClaim, error) {
		return config.Client.CoreV1().PersistentVolumeClaims(namespace).Get(c.ctx, name, metav1.GetOptions{})
	})
	c.retries = newRetries(c.filter.retry)
	return c
}

// Watch returns the informer of the local claims. The caller runs both informers, Classes first.
// Until the context ends, claims that no agent will serve get events.
func (c *Claims) Watch(ctx context.Context) (cache.SharedIndexInformer, error) {
	c.ctx = ctx
	c.unserved = newUnservedRecorder(&c.config, c.Class)
	go c.unserved.run(ctx)
	go c.filter.runLate(ctx)
	_, err := c.classes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if sc, ok := obj.(*storagev1.StorageClass); ok {
				c.filter.classAppeared(sc.Name)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch classes: %w", err)
	}
	lw := &cache.ListWatch{ListWithContextFunc: c.filter.ListWithContext, WatchFuncWithContext: c.filter.WatchWithContext}
	return cache.NewSharedIndexInformer(lw, &corev1.PersistentVolumeClaim{}, Resync, cache.Indexers{}), nil
}

// Classes returns the informer of all classes.
func (c *Claims) Classes() cache.SharedIndexInformer { return c.classes }

// Class returns the class with that name, or nil if there is none yet. The class is
// shared with the cache; the caller must not change it.
func (c *Claims) Class(name string) *storagev1.StorageClass {
	obj, ok, err := c.classes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*storagev1.StorageClass)
}

// IsLocal reports whether the claim is placed on this node, or bound to a PV on it.
func (c *Claims) IsLocal(claim *corev1.PersistentVolumeClaim) bool {
	return c.placer.place(claim) == local
}

// IsEarly reports whether a local claim was passed before the controller-manager wrote
// its provisioner on it. It returns false for an unknown UID.
func (c *Claims) IsEarly(uid types.UID) bool { return c.filter.isEarly(uid) }

// RetryLater schedules a refused claim for another attempt: at the next Retry, or after at most 10
// seconds, if it is local then. The caller runs RunRetries.
func (c *Claims) RetryLater(uid types.UID) { c.retries.add(uid) }

// Retry makes RunRetries retry all temporarily refused claims now. It never blocks.
func (c *Claims) Retry() { sleep.Wake(c.retries.wake) }

// RunRetries retries temporarily refused claims until the context ends.
func (c *Claims) RunRetries(ctx context.Context) { c.retries.run(ctx) }

// BoundHere places the claim of that namespace, name and UID again, whose PV appeared on this node. It
// does not block.
func (c *Claims) BoundHere(namespace, name string, uid types.UID) {
	c.filter.boundHere(contract.Named{Namespace: namespace, Name: name}, uid)
}

// SourceChanged places the claims again whose source is the claim of that namespace and name. The caller
// calls it when that was bound to a PV of this node, and when it is not any more.
func (c *Claims) SourceChanged(namespace, name string) {
	c.filter.sourceChanged(contract.Named{Namespace: namespace, Name: name})
}

// CopiesIn returns the claims of a namespace that wait for the scheduler, and for a copy of another claim's
// volume that another node makes, or left this node and have had their copy for less than 30 seconds.
func (c *Claims) CopiesIn(namespace string) []Copy { return c.filter.copiesIn(namespace) }

// prepare returns a slim copy of a local claim for the provisioner library, with the annotations
// that the library waits for.
//
// One is the provisioner's name. The controller-manager writes it once a claim of a class that
// binds on first use has its node. It binds such a claim only to its own PV (FindMatchingVolume in
// k8s.io/component-helpers/storage/volume), so the library need not wait for it.
//
// The other is the selected node, if the user's annotation places the claim.
//
// Neither is written to the API server.
//
// prepare does not change its argument, which may be in a cache.
func prepare(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	node string) *corev1.PersistentVolumeClaim {
	out := contract.Slim(claim)
	if c == nil || claim.Spec.VolumeName != "" {
		return out
	}
	switch named, by := contract.NodeOf(out, c); {
	case by == contract.AnnProvisionOnNode && contract.Delayed(c):
		out.Annotations[contract.AnnSelectedNode] = node
	case by == contract.AnnProvisionOnNode:
	case !contract.Delayed(c) || named != node:
		return out
	}
	out.Annotations[contract.AnnStorageProvisioner] = c.Provisioner
	return out
}
