package diskpvs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/pvwrite"
)

// checkInterval is the time after which a Node that does not exist is checked again, and at the
// earliest a write is repeated that another program reverted.
var checkInterval = timing.Scaled(time.Minute)

// Reconciler handles the PVs of raw disks. Register it with a manager.
type Reconciler struct {
	// Namespace is that of the agents.
	Namespace string
	// Cache has PVs and metadata of nodes, with the index of Register.
	Cache client.Reader
	// Live reads whatever is decided by, and writes.
	Live   kubernetes.Interface
	Events *events.Recorder
	// Grace returns for how long a Node does not exist before its PVs are withdrawn. An error is that
	// it is not known; nothing is withdrawn then.
	Grace func(context.Context) (time.Duration, error)

	absent  map[string]absence // by the node's name; used by one worker, as the next two
	wrote   pvwrite.Writes
	cluster string // the UID of this cluster, "" before it is read
}

// byLabel is the index of PVs by identity.DiskLabel.
const byLabel = "disk"

// Register has the manager run the reconciler while it leads. Requests have the label of a node.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.absent = map[string]absence{}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.PersistentVolume{},
		byLabel, labelOf); err != nil {
		return err
	}
	requests := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (all []reconcile.Request) {
		for _, label := range labelOf(o) {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: label}})
		}
		return all
	})
	return builder.ControllerManagedBy(mgr).Named("diskpvs").
		WatchesMetadata(&corev1.Node{}, requests).Watches(&corev1.PersistentVolume{}, requests).Complete(r)
}

// labelOf returns the label that a Node's PVs of raw disks have, or that such a PV has.
func labelOf(o client.Object) []string {
	pv, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return []string{contract.LabelValue(o.GetName())}
	}
	if label := identity.DiskLabel(pv); label != "" {
		return []string{label}
	}
	return nil
}

// Reconcile handles the PVs of raw disks with that label of a node. It does nothing if there are none.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pvs corev1.PersistentVolumeList
	if err := r.Cache.List(ctx, &pvs, client.MatchingFields{byLabel: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the PVs of the disks of node %s: %w", req.Name, err)
	}
	node, err := r.cachedNode(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var next time.Duration
	var failed []error
	for i := range pvs.Items {
		wait, err := r.keep(ctx, &pvs.Items[i], node)
		failed = append(failed, err)
		if wait > 0 {
			next = checkInterval
		}
	}
	if node != nil || len(pvs.Items) == 0 {
		delete(r.absent, req.Name)
		return reconcile.Result{RequeueAfter: next}, errors.Join(failed...)
	}
	next, err = r.withdraw(ctx, req.Name, pvs.Items)
	// The grace may change.
	return reconcile.Result{RequeueAfter: min(next, checkInterval)}, errors.Join(append(failed, err)...)
}

// cachedNode returns the metadata of the Node whose PVs have that label, nil if there is none. The label
// is the Node's name, or a hash of it.
func (r *Reconciler) cachedNode(ctx context.Context, label string) (*metav1.PartialObjectMetadata, error) {
	if strings.HasPrefix(label, contract.HashedLabel) {
		return r.hashedNode(ctx, label)
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	switch err := r.Cache.Get(ctx, types.NamespacedName{Name: label}, node); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", label, err)
	}
	return node, nil
}

// hashedNode is cachedNode for the label of a name that is too long for one.
func (r *Reconciler) hashedNode(ctx context.Context, label string) (*metav1.PartialObjectMetadata, error) {
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Cache.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes for the label %s: %w", label, err)
	}
	for i := range nodes.Items {
		if contract.LabelValue(nodes.Items[i].Name) == label {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}
