package nodegone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/pvwrite"
)

var (
	// checkInterval is the time after which a node that is gone is checked again.
	checkInterval = timing.Scaled(time.Minute)
	// releaseInterval is the same while the volumes of the node are released. It doubles up to the other
	// one: what a webhook puts back is never released.
	releaseInterval = timing.Scaled(5 * time.Second)
)

// Reconciler handles PVs and capacity objects of nodes that are gone. Register it with a manager.
type Reconciler struct {
	// Namespace is that of the agents and of their capacity objects.
	Namespace string
	// Cache has PVs, capacity objects and metadata of nodes, with the indexes of Register.
	Cache client.Reader
	// Live reads whatever is decided by, and writes.
	Live   kubernetes.Interface
	Events *events.Recorder
	// OnClaims reads which pools are on claims, by pool and node; nil is none.
	OnClaims func(context.Context) (func(pool, node string) bool, error)
	// Grace returns for how long a node is gone before anything happens.
	Grace func(context.Context) (time.Duration, error)

	since   map[string]silence // by the node's name; used by one worker, as the next two
	cluster string             // the UID of this cluster, "" before it is read
	wrote   pvwrite.Writes
	pulse   pulse

	mu     sync.Mutex
	counts map[string]tally // by the node's name; guarded by mu
}

const (
	// byNode is the index of objects by the name of their node.
	byNode = "node"
	// byPool is the index of PVs by the UUID of their pool, and of capacity objects by the UUIDs of
	// the pools that an agent published as open.
	byPool = "pool"
)

// Register has the manager run the reconciler while it leads. Requests have the name of a node.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.since, r.counts = map[string]silence{}, map[string]tally{}
	requests := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (all []reconcile.Request) {
		for _, node := range nodesOf(o) {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
		}
		return all
	})
	b := builder.ControllerManagedBy(mgr).Named("nodegone").WatchesMetadata(&corev1.Node{},
		&handler.EnqueueRequestForObject{})
	// A node is gone when its agent's pod is: the manager has the pods of the agents cached.
	b = b.Watches(&corev1.Pod{}, requests)
	for _, o := range []client.Object{&corev1.PersistentVolume{}, &storagev1.CSIStorageCapacity{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), o, byNode, nodesOf); err != nil {
			return err
		}
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), o, byPool, poolsOf); err != nil {
			return err
		}
		b = b.Watches(o, requests)
	}
	return errors.Join(b.Complete(r), mgr.Add(manager.RunnableFunc(r.pulse.run)))
}

// poolsOf returns the UUID of the pool of a PV, none if no agent recorded it, or those that a capacity
// object publishes as open.
func poolsOf(o client.Object) (ids []string) {
	if c, ok := o.(*storagev1.CSIStorageCapacity); ok {
		pools, _, _ := contract.PoolsOf(c)
		for _, p := range pools.Pools {
			if p.Open && p.ID != "" {
				ids = append(ids, p.ID)
			}
		}
		return ids
	}
	if id := o.GetAnnotations()[contract.AnnPool]; id != "" {
		return []string{id}
	}
	return nil
}

// nodesOf returns the name of the node of a PV, a capacity object or an agent's pod, none if it is
// not one of the provisioners'.
func nodesOf(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		if h, ok := identity.HomeOf(o); ok {
			return []string{h.Node}
		}
	case *corev1.Pod:
		if o.Spec.NodeName != "" && contract.OfDaemonSet(o) {
			return []string{o.Spec.NodeName}
		}
	case *storagev1.CSIStorageCapacity:
		if node := capacityNode(o); node != "" {
			return []string{node}
		}
	}
	return nil
}

// Reconcile acts on what a node has that may be lost, and marks the PVs of a node that exists. It
// does nothing for any other node.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	l, err := r.lost(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	for i := range l.bound {
		err = errors.Join(err, r.stamp(ctx, &l.bound[i]), r.restore(ctx, &l.bound[i]))
	}
	if len(l.pvs)+len(l.capacities) == 0 {
		delete(r.since, req.Name)
		r.count(req.Name, tally{})
		return reconcile.Result{}, err
	}
	facts := r.newReader()
	rest, next, failed := facts.wait(ctx, req.Name, l)
	if err = errors.Join(err, failed); err != nil {
		return reconcile.Result{}, err
	}
	t, err := r.handleAll(ctx, l.pvs, facts)
	r.count(req.Name, t)
	if rest <= 0 {
		err = errors.Join(err, r.collect(ctx, req.Name, l.capacities))
	}
	if next <= 0 {
		next = checkInterval
	}
	if pause := r.pause(req.Name, t[removing] > 0); pause > 0 {
		next = pause
	}
	return reconcile.Result{RequeueAfter: min(next, checkInterval)}, err // the grace period may change
}

// pause returns the time until the next pass while volumes of the node are released, 0 while none are.
func (r *Reconciler) pause(node string, releases bool) time.Duration {
	q := r.since[node]
	if q.pause = sleep.Doubled(q.pause, releaseInterval, checkInterval); !releases {
		q.pause = 0
	}
	r.since[node] = q
	return q.pause
}

// lost is what a node has that may be lost, and what it has, according to the cache.
type lost struct {
	uid        types.UID // of the Node that exists, "" if there is none
	pvs        []corev1.PersistentVolume
	bound      []corev1.PersistentVolume      // those of the Node that exists, if there is something to write
	capacities []storagev1.CSIStorageCapacity // none if there is a Node: its agent has them
}

func (r *Reconciler) lost(ctx context.Context, name string) (l lost, err error) {
	node, err := r.cachedNode(ctx, name)
	if err != nil {
		return l, err
	}
	of := client.MatchingFields{byNode: name}
	var pvs corev1.PersistentVolumeList
	if err := r.Cache.List(ctx, &pvs, of); err != nil {
		return l, fmt.Errorf("list the PVs of node %s: %w", name, err)
	}
	for _, pv := range pvs.Items {
		h, _ := identity.HomeOf(&pv)
		switch {
		case node == nil || !h.IsNode(string(node.UID)),
			h.Missing == identity.PoolMissing(string(node.UID)) &&
				identity.GivesUp(node.Annotations[contract.AnnGiveUp], string(node.UID), h.NodeUID, h.Pool):
			l.pvs = append(l.pvs, pv)
		case h.NodeUID != "" && (givenUp(&pv) || h.Cluster == ""):
			l.bound = append(l.bound, pv)
		}
	}
	if node != nil {
		l.uid = node.UID
		return l, nil
	}
	var capacities storagev1.CSIStorageCapacityList
	if err := r.Cache.List(ctx, &capacities, client.InNamespace(r.Namespace), of); err != nil {
		return l, fmt.Errorf("list the capacity objects of node %s: %w", name, err)
	}
	l.capacities = capacities.Items
	return l, nil
}

// cachedNode returns the metadata of the Node of that name, nil if there is none.
func (r *Reconciler) cachedNode(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	switch err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return node, nil
}

// capacityNode returns the node of a capacity object of the driver, "" if it is another driver's or
// is for nodes that an autoscaler may add.
func capacityNode(o *storagev1.CSIStorageCapacity) string {
	if o.NodeTopology == nil || len(o.NodeTopology.MatchExpressions) > 0 || len(o.NodeTopology.MatchLabels) != 1 {
		return ""
	}
	return o.NodeTopology.MatchLabels[contract.TopologyNode]
}
