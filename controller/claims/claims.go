package claims

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
)

// Resync is how often claims and PVs are looked at again where nothing
// changed. They are this node's only, and what an agent left to another,
// which then went away, is not left for long.
const Resync = time.Minute

// Config is what the claims of a node need. All of it is required.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	Events *events.Recorder
	// Rules place claims, by the provisioner that their class names. Claims of
	// other provisioners are not served.
	Rules map[string]Rule
	PVs   interface {
		// IsLocal reports whether the PV of that name is one of this node's.
		IsLocal(pv string) bool
	}
	// Refusal returns why this node never serves claims of a class although it
	// has the pool of the class, and "" if it serves them.
	Refusal func(*storagev1.StorageClass) string
}

// Claims are the claims of one node, filtered from those of the cluster, with the
// classes that they name. Make them with New, then Watch them once.
type Claims struct {
	config     Config
	placer     *placer
	filter     *filter
	waiting    *waiting
	unassigned *voice          // set by Watch
	ctx        context.Context // likewise: reads of single claims end with it

	classes cache.SharedIndexInformer
}

// New returns claims that are not watched yet.
func New(config Config) *Claims {
	c := &Claims{config: config, classes: watchClasses(config.Client)}
	c.placer = &placer{node: config.Node, rules: config.Rules, class: c.Class, isLocalPV: config.PVs.IsLocal,
		offered: func(sc *storagev1.StorageClass) bool { return config.Refusal(sc) == "" }}
	pvcs := config.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pvcs.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pvcs.Watch(ctx, o)
		},
	}
	hear := func(claim *corev1.PersistentVolumeClaim, where placement) { c.unassigned.hear(claim, where) }
	c.filter = newFilter(source, c.placer, hear, func(namespace, name string) (*corev1.PersistentVolumeClaim, error) {
		return config.Client.CoreV1().PersistentVolumeClaims(namespace).Get(c.ctx, name, metav1.GetOptions{})
	})
	c.waiting = newWaiting(c.filter.retry)
	return c
}

// Watch builds the informer of the local claims. The context is that of the
// events about unassigned claims. The caller runs both informers, Classes first.
func (c *Claims) Watch(ctx context.Context) (cache.SharedIndexInformer, error) {
	c.ctx = ctx
	c.unassigned = newVoice(ctx, c.config.Client, c.config.Events, c.config.Node, c.refusal)
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

// Class returns the class of that name, nil if there is none yet.
func (c *Claims) Class(name string) *storagev1.StorageClass {
	obj, ok, err := c.classes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*storagev1.StorageClass)
}

// IsLocal reports whether the claim is placed on this node, or bound to a PV of it.
func (c *Claims) IsLocal(claim *corev1.PersistentVolumeClaim) bool {
	return c.placer.place(claim) == local
}

// IsEarly reports whether the claim is here before the controller-manager wrote
// its provisioner on it.
func (c *Claims) IsEarly(uid types.UID) bool { return c.filter.isEarly(uid) }

// IsDeleted reports whether the watch has seen the deletion of that local claim.
// It is false if nothing is known of the claim.
func (c *Claims) IsDeleted(uid types.UID) bool { return c.filter.isDeleted(uid) }

// RetryLater has the claim, which was refused for now, seen again after a while,
// or at the next Retry.
func (c *Claims) RetryLater(uid types.UID) { c.waiting.add(uid) }

// Retry has all claims that were refused for now seen again. It never blocks.
func (c *Claims) Retry() { sleep.Wake(c.waiting.wake) }

// RunRetries has refused claims seen again, until the context ends.
func (c *Claims) RunRetries(ctx context.Context) { c.waiting.run(ctx) }

// refusal returns why this node never serves claims of the class of that name.
func (c *Claims) refusal(className string) string {
	if sc := c.Class(className); sc != nil {
		return c.config.Refusal(sc)
	}
	return ""
}
