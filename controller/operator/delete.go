package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/timing"
)

// forced is the annotation with which a resource is deleted although volumes are in use.
const forced = "hostpathprovisioner.kubevirt.io/force-deletion"

// recheck is how often a resource that waits for volumes is checked.
var recheck = timing.Scaled(10 * time.Second)

// delete removes the objects of a resource that is deleted, once no volume is in use: the DaemonSet and its pods first, the
// CSIDriver last. Until then the agents are kept. It never touches data. A resource that is not served, according to the API
// server, has no objects, and only loses its finalizer.
func (r *Reconciler) delete(ctx context.Context, cr *v1beta1.HostPathProvisioner) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(cr, finalizer) {
		return reconcile.Result{}, nil
	}
	served, err := served(ctx, r.Live)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list resources: %w", err)
	}
	if served.UID != cr.UID {
		return reconcile.Result{}, r.letGo(ctx, cr)
	}
	if cr.Annotations[forced] != "true" {
		used, err := r.inUse(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(used) > 0 {
			return reconcile.Result{RequeueAfter: recheck}, r.wait(ctx, cr, used)
		}
	}
	left, err := r.removeAll(ctx, cr, "DaemonSet")
	if left == "" && err == nil {
		left, err = r.releaseClaims(ctx, cr)
	}
	if left == "" && err == nil {
		left, err = r.removeAll(ctx, cr)
	}
	if err != nil || left != "" {
		return reconcile.Result{RequeueAfter: time.Second}, err
	}
	return reconcile.Result{}, r.letGo(ctx, cr)
}

// letGo removes the finalizer.
func (r *Reconciler) letGo(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	before := cr.DeepCopy()
	controllerutil.RemoveFinalizer(cr, finalizer)
	err := r.Client.Patch(ctx, cr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// wait keeps the agents, and names the volumes in the conditions.
func (r *Reconciler) wait(ctx context.Context, cr *v1beta1.HostPathProvisioner, used []string) error {
	l, err := r.layout(ctx, cr)
	if err != nil {
		return err
	}
	admitted := r.admit(ctx, cr)
	if _, err := r.applyAll(ctx, cr, l); err != nil || admitted != nil {
		return errors.Join(admitted, err)
	}
	status := *cr.Status.DeepCopy()
	slices.Sort(used)
	r.conditions(&status, verdict{"", yes, no, "VolumesInUse", fmt.Sprintf(
		"waits for %s to be deleted: %s; the annotation %s=true removes the agents and leaves the volumes",
		events.Count(len(used), "volume"), names(used), forced)}, nil)
	return r.writeStatus(ctx, cr, status)
}

// releaseClaims unmounts the pools on claims, which the agents do not use any more, and returns one that is still mounted, or "".
func (r *Reconciler) releaseClaims(ctx context.Context, cr *v1beta1.HostPathProvisioner) (left string, err error) {
	found, err := r.claims(cr).Keep(ctx, cr, claimpools.Wanted{Settled: true, Deleted: true})
	if err != nil || len(found.Left) == 0 {
		return "", err
	}
	status := *cr.Status.DeepCopy()
	r.conditions(&status, verdict{no, yes, no, "PoolUnmounting", names(found.Left)}, nil)
	return found.Left[0], r.writeStatus(ctx, cr, status)
}

// removeAll deletes the objects, or those of one kind, in reverse order, and returns one that is still there, or "".
func (r *Reconciler) removeAll(ctx context.Context, cr *v1beta1.HostPathProvisioner, kinds ...string) (left string, err error) {
	objects, err := r.objects(cr)
	if err != nil {
		return "", err
	}
	order := []string{"ValidatingWebhookConfiguration", "Service", "DaemonSet", "RoleBinding", "ClusterRoleBinding", "Role", "ClusterRole", "ServiceAccount", "CSIDriver"}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return slices.Index(order, a.GetKind()) - slices.Index(order, b.GetKind())
	})
	for _, o := range objects {
		if len(kinds) > 0 && !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(o.GroupVersionKind())
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), have)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", err
		case have.GetDeletionTimestamp() == nil:
			if err := r.replace(ctx, have); err != nil {
				return "", err
			}
		}
		return o.GetKind() + " " + o.GetName(), nil
	}
	if len(kinds) > 0 {
		return "", nil
	}
	return "", r.removeConstraints(ctx, r.Live, agentConstraints)
}
