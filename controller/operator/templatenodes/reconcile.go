package templatenodes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	reasons "kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Reconciler publishes the objects of the template nodes of the resource that is served. Register
// it once with a manager.
type Reconciler struct {
	// Namespace is that of the objects.
	Namespace string
	// Cache has resources, classes and capacity objects.
	Cache client.Reader
	// Live writes.
	Live kubernetes.Interface
	// Events records events of the resource.
	Events events.EventRecorder
	// Owner is the field owner of what is applied, and Labels are those of every object.
	Owner  string
	Labels map[string]string
	// Installed finds another installation.
	Installed installed.Reader

	unused string // template nodes of the last event about such; used by one worker
}

// Register has the manager run the reconciler while it leads.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "template-nodes"}}}
	})
	ours := func(o client.Object) bool {
		c, ok := o.(*storagev1.CSIStorageCapacity)
		return ok && isOurs(c)
	}
	return builder.ControllerManagedBy(mgr).Named("templatenodes").
		Watches(&v1beta1.HostPathProvisioner{}, one).
		Watches(&storagev1.StorageClass{}, one).
		Watches(&storagev1.CSIStorageCapacity{}, one, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
			// a user may have removed the label
			UpdateFunc: func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
			DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
		})).Complete(r)
}

// Reconcile applies the objects that differ, and then deletes those that are not wanted. It deletes
// all if no resource is served, or the one that is served is deleted, and does nothing beside
// another installation, which may have the same objects in its own namespace.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if namespace, err := r.Installed.Other(ctx); namespace != "" || err != nil {
		return reconcile.Result{RequeueAfter: installed.YieldInterval}, err
	}
	cr, err := installed.Served(ctx, r.Cache)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list resources: %w", err)
	}
	var classes storagev1.StorageClassList
	if err := r.Cache.List(ctx, &classes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list storage classes: %w", err)
	}
	var there storagev1.CSIStorageCapacityList
	if err := r.Cache.List(ctx, &there, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list capacity objects: %w", err)
	}
	wanted, unused := desired(cr, classes.Items, r.Namespace, r.Labels)
	r.announceUnused(cr, unused)
	have := map[string]*storagev1.CSIStorageCapacity{}
	for i := range there.Items {
		have[there.Items[i].Name] = &there.Items[i]
	}
	var errs []error
	for _, want := range wanted {
		errs = append(errs, r.put(ctx, cr, want, have[want.Name]))
		delete(have, want.Name)
	}
	for _, o := range have {
		if isOurs(o) {
			errs = append(errs, r.remove(ctx, o))
		}
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// put applies the object if the cluster's, nil if there is none, differs.
func (r *Reconciler) put(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	want, have *storagev1.CSIStorageCapacity) error {
	did, reason, failed := "Create", reasons.CreateResourceSuccess, reasons.CreateResourceFailed
	switch {
	case have == nil:
	case same(want, have), have.DeletionTimestamp != nil: // once it is gone, it is created again
		return nil
	case !sameKey(want, have): // its deletion brings the next call
		return r.remove(ctx, have)
	default:
		did, reason, failed = "Update", reasons.UpdateResourceSuccess, reasons.UpdateResourceFailed
	}
	_, err := r.Live.StorageV1().CSIStorageCapacities(want.Namespace).Apply(ctx, toApply(want),
		metav1.ApplyOptions{FieldManager: r.Owner, Force: true})
	if err != nil {
		err = fmt.Errorf("publish the capacity of template node %s for class %s: %w", want.Labels[labelTemplate],
			want.StorageClassName, err)
		reason = failed
		r.Events.Eventf(cr, nil, corev1.EventTypeWarning, reason, "Reconcile", "%v", err)
		return err
	}
	r.Events.Eventf(cr, nil, corev1.EventTypeNormal, reason, "Reconcile", "%sd CSIStorageCapacity %s",
		did, want.Name)
	return nil
}

// remove deletes an object, unless it changed since it was read. It does nothing if that happens
// already.
func (r *Reconciler) remove(ctx context.Context, o *storagev1.CSIStorageCapacity) error {
	if o.DeletionTimestamp != nil {
		return nil
	}
	err := live.IgnoreMoved(r.Live.StorageV1().CSIStorageCapacities(o.Namespace).Delete(ctx, o.Name, live.Unchanged(o)))
	if err == nil {
		return nil
	}
	return fmt.Errorf("delete capacity object %s: %w", o.Name, err)
}

// announceUnused records an event on the resource for template nodes without a storage class, once
// until they change.
func (r *Reconciler) announceUnused(cr *v1beta1.HostPathProvisioner, unused []string) {
	names := strings.Join(unused, ", ")
	if names != "" && names != r.unused {
		r.Events.Eventf(cr, nil, corev1.EventTypeWarning, reasons.TemplateNodeUnused, "Reconcile", "%s",
			"no capacity is published for template nodes "+names+": no storage class of their pool binds with "+
				"WaitForFirstConsumer. Create one, or change the pool")
	}
	r.unused = names
}
