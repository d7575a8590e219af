package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/constraints"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// forceAnnotation is the annotation with which a resource is deleted although volumes are in use.
const forceAnnotation = "hostpathprovisioner.kubevirt.io/force-deletion"

// delete removes the objects of a resource that is deleted, once no volume is in use: the DaemonSet
// and its pods first, the CSIDriver last. Until then the agents stay. It never touches data. A
// resource that is not served has no objects, and only loses its finalizer.
func (r *Reconciler) delete(ctx context.Context, cr *v1beta1.HostPathProvisioner) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(cr, finalizer) {
		return reconcile.Result{}, nil
	}
	served, err := installed.Served(ctx, r.Live)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list resources: %w", err)
	}
	if served.UID != cr.UID {
		return reconcile.Result{}, r.removeFinalizer(ctx, cr)
	}
	if cr.Annotations[forceAnnotation] != "true" {
		used, err := r.inUse(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(used) > 0 {
			return reconcile.Result{RequeueAfter: r.pace(checkInterval, used)}, r.waitForVolumes(ctx, cr, used)
		}
	}
	left, err := r.removeAll(ctx, cr, "DaemonSet")
	if left != "" && err == nil {
		var waits []string
		if waits, err = r.former().Ending(ctx); err == nil && len(waits) > 0 {
			return reconcile.Result{RequeueAfter: r.pace(time.Second, waits)},
				r.show(ctx, cr, verdict{reason: "AgentsEnding", message: "waits for agents to end: " + events.Names(waits, events.Listed)})
		}
		// only agents of nodes that do not answer are left: nothing can end them, and the DaemonSet goes with their nodes
		left = ""
	}
	held := false // holders stay
	if left == "" && err == nil {
		left, held, err = r.unmountPools(ctx, cr)
	}
	if left == "" && err == nil {
		left, err = r.removeRest(ctx, cr, held)
	}
	if err != nil || left != "" {
		return reconcile.Result{RequeueAfter: r.pace(time.Second, left)}, err
	}
	return reconcile.Result{}, r.removeFinalizer(ctx, cr)
}

// removeRest removes what is left when the agents and the disks of pools are gone. Holders that
// stay keep their account, without an owner that would take it along, and their constraints: their
// pods can be created again. It returns an object that is still there, or "".
func (r *Reconciler) removeRest(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	held bool) (left string, err error) {
	if err := r.Reader().Remove(ctx, cr); err != nil {
		return "", err
	}
	kinds := otherKinds
	if held {
		all, err := r.objects(cr)
		if err != nil {
			return "", err
		}
		all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() != "ServiceAccount" })
		for _, account := range all {
			account.SetOwnerReferences(nil)
		}
		if err := r.Applier.Apply(ctx, cr, all...); err != nil {
			return "", err
		}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == "ServiceAccount" })
	}
	if left, err = r.removeAll(ctx, cr, kinds...); left != "" || err != nil || held {
		return left, err
	}
	return "", constraints.Remove(ctx, r.Live, r.Client, constraints.Agents)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	before := cr.DeepCopy()
	controllerutil.RemoveFinalizer(cr, finalizer)
	return live.IgnoreMoved(r.Client.Patch(ctx, cr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// waitForVolumes keeps the agents, and names the volumes in the conditions. A webhook that cannot
// be applied does not keep the agents from their objects.
func (r *Reconciler) waitForVolumes(ctx context.Context, cr *v1beta1.HostPathProvisioner, used []string) error {
	failed := r.applyWebhook(ctx, cr)
	if _, _, err := r.applyAgents(ctx, cr); err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	slices.Sort(used)
	return r.show(ctx, cr, verdict{reason: "VolumesInUse", message: fmt.Sprintf(
		"waits for %s to be deleted: %s; the annotation %s=true removes the agents and leaves the volumes",
		events.Count(len(used), "volume"), events.Names(used, events.Listed), forceAnnotation)})
}

// unmountPools unmounts the pools on claims, which no agent uses any more, and returns one that is
// still mounted, or "". held is true if holders stay, because volumes use their disks.
func (r *Reconciler) unmountPools(ctx context.Context,
	cr *v1beta1.HostPathProvisioner) (left string, held bool, err error) {
	record, err := poolrecord.Read(ctx, r.Live, r.Namespace)
	if err != nil {
		return "", false, err
	}
	forced := cr.Annotations[forceAnnotation] == "true"
	secrets, err := r.installed().PullSecrets(ctx)
	if err != nil {
		return "", false, err
	}
	found, err := r.claimPools(cr, record, secrets).Reconcile(ctx,
		objects.Desired{Settled: true, Deleted: true, Forced: forced})
	held = len(found.Kept) > 0
	switch {
	case err != nil, len(found.Left) == 0 && (held || cr.Annotations[forceAnnotation] == "true"):
		return "", held, err
	case len(found.Left) == 0:
		return "", held, record.Delete(ctx, r.Client)
	}
	return found.Left[0], held, r.show(ctx, cr, verdict{reason: "PoolUnmounting",
		message: events.Names(found.Left, events.Listed), available: no})
}

// otherKinds are the kinds of the objects beside the DaemonSet, in the order of their removal.
var otherKinds = []string{"ValidatingWebhookConfiguration", "Service", "RoleBinding", "ClusterRoleBinding", "Role",
	"ClusterRole", "ServiceAccount", "CSIDriver"}

// removeAll deletes the objects of the kinds in their order, and returns one still there, or "".
func (r *Reconciler) removeAll(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	kinds ...string) (left string, err error) {
	objects, err := r.objects(cr)
	if err != nil {
		return "", err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind())
	})
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return slices.Index(kinds, a.GetKind()) - slices.Index(kinds, b.GetKind())
	})
	for _, o := range objects {
		have, err := r.Applier.Read(ctx, o)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", err
		case have.GetDeletionTimestamp() == nil:
			if err := r.Applier.Delete(ctx, have); err != nil {
				return "", err
			}
		}
		return o.GetKind() + " " + o.GetName(), nil
	}
	return "", nil
}

// inUse lists the PVs of the provisioners, and the pods with inline volumes of the driver.
func (r *Reconciler) inUse(ctx context.Context) (found []string, err error) {
	err = r.installed().EachProvisioned(ctx, func(pv *corev1.PersistentVolume) { found = append(found, "PV "+pv.Name) })
	if err != nil {
		return nil, err
	}
	err = r.installed().EachInline(ctx, func(pod *corev1.Pod, _ []string) {
		found = append(found, "pod "+pod.Namespace+"/"+pod.Name)
	})
	return found, err
}
