package release

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// retryAfter is the time after which a Job that failed is replaced by another one.
var retryAfter = timing.Scaled(15 * time.Second)

// Retired is a holder that is no longer wanted. Deployment is nil if it does not exist.
type Retired struct {
	Name string
	poolrecord.Holder
	Deployment *appsv1.Deployment
}

// ended reports whether the holder has no Deployment, or one that is to have no pod.
func (h Retired) ended() bool {
	return h.Deployment == nil || h.Deployment.Spec.Replicas != nil && *h.Deployment.Spec.Replicas == 0
}

func (h Retired) place() string { return fmt.Sprintf("%s on node %s", h.Path, h.Node) }

// about returns what an event of the holder is about.
func (h Retired) about(cr *v1beta1.HostPathProvisioner) client.Object {
	if h.Deployment == nil {
		return cr
	}
	return h.Deployment
}

// Retire does the next step until what the holder mounted is unmounted, and then deletes the
// Deployment: the pod ends, and a Job unmounts. A holder that may not end stays.
//
// A node that does not exist has no mount, once its agents' pods are gone: a Node that is absent for
// a moment has a machine that runs on, with its agent and the mount.
//
// Nothing is started on a node that is not ready; if the resource is deleted, the Deployment is
// deleted and the mount stays until the node restarts.
func (p *Pass) Retire(ctx context.Context, found *Result, h Retired,
	w objects.Desired) error {
	node, err := p.Node(ctx, h.Node)
	if err != nil {
		return err
	}
	silent := node != nil && !contract.NodeReady(node)
	if h.Deployment != nil && h.Deployment.DeletionTimestamp != nil { // it is created again once it is gone
		if !w.Deleted || !silent { // nothing ends the pod of a node that is silent, and the Deployment goes after it
			found.addLeft(h.place() + ": its Deployment is being deleted")
		}
		return nil
	}
	if h.Unmounted && h.ended() {
		return p.forget(ctx, h, node == nil)
	}
	job, err := p.job(ctx, objects.JobOf(h.Pool, h.Node))
	if err != nil {
		return err
	}
	if job != nil && !h.ended() && !(w.Deleted && silent) { // it ended before the pod came back, and proves nothing about the disk now
		_, err := p.DeleteJobs(ctx, h.Pool, h.Node)
		found.addLeft(h.place() + ": an earlier Job has to go")
		return err
	}
	unmounting := job != nil && h.Deployment != nil && metav1.IsControlledBy(job, h.Deployment)
	if !unmounting { // before the pod ends, and again before a Job is created
		why, used, err := p.MayEnd(ctx, h.Holder, node, w)
		switch {
		case err != nil:
			return err
		case used:
			return p.retain(ctx, found, h, why, w)
		case why != "" && (!w.Deleted || node != nil && !silent):
			found.addLeft(h.place() + ": " + why)
			return nil
		}
	}
	switch {
	case node == nil || h.Path == "":
		return p.forget(ctx, h, node == nil)
	case silent && w.Deleted:
		p.Event(h.about(p.Resource), corev1.EventTypeWarning, events.PoolNotUnmounted,
			fmt.Sprintf("node %s is not ready: %s stays mounted there until the node restarts", h.Node, h.Path))
		return p.forget(ctx, h, node == nil)
	case h.Deployment == nil && w.Forced:
		return nil
	case h.Deployment == nil: // someone deleted it, and the Job needs it
		found.addLeft(h.place() + ": its Deployment is created again, to unmount it")
		return p.Apply(ctx, objects.Pool{Name: h.Pool, Path: h.Path}, h.Node)
	}
	left, err := p.unmount(ctx, h, node, job, w)
	if left != "" {
		found.addLeft(left)
	}
	return err
}

// retain keeps a holder that may not end, with its pod. If the resource is deleted, the Deployment
// loses its owner, with which it would be deleted.
func (p *Pass) retain(ctx context.Context, found *Result, h Retired, why string,
	w objects.Desired) error {
	if stopped, err := p.DeleteJobs(ctx, h.Pool, h.Node); err != nil || !stopped { // a Job of an earlier Deployment
		found.addLeft(h.place() + ": an earlier Job has to go")
		return err
	}
	if _, err := p.Guard(ctx, h.Name); err != nil {
		return err
	}
	found.Kept = append(found.Kept, fmt.Sprintf("pool %s stays mounted at %s: %s", h.Pool, h.place(), why))
	switch {
	case h.Deployment == nil && w.Deleted:
		return nil // there is no resource that could own it
	case h.Deployment == nil:
		return p.Apply(ctx, objects.Pool{Name: h.Pool, Path: h.Path}, h.Node)
	}
	patch := map[string]any{}
	if h.Deployment.Spec.Replicas != nil && *h.Deployment.Spec.Replicas == 0 {
		patch["spec"] = map[string]any{"replicas": 1}
	}
	if w.Deleted && len(h.Deployment.OwnerReferences) > 0 {
		patch["metadata"] = map[string]any{"ownerReferences": nil}
		p.Event(h.Deployment, corev1.EventTypeWarning, events.PoolNotUnmounted,
			h.place()+" stays mounted, by Deployment "+h.Name+": "+why)
	}
	return p.patch(ctx, h.Deployment, patch)
}

// forget deletes the Deployment and removes the holder from the record, where it notes before that
// nothing is mounted any more. Otherwise, if the operator was killed in between, a holder without a
// Deployment would be mounted again to be unmounted.
//
// The disk gets its policy back, but not if its Node is gone: the node may come back for the volumes on
// it, also for those whose PVs were released with the node.
func (p *Pass) forget(ctx context.Context, h Retired, gone bool) error {
	if h.Deployment != nil {
		h.Unmounted = true
		p.Record.Holders[h.Name] = h.Holder
		if err := p.Save(ctx); err != nil {
			return err
		}
		if err := p.remove(ctx, h.Deployment); err != nil {
			return err
		}
	}
	if !gone {
		if err := p.restore(ctx, h.Name, h.Holder); err != nil {
			return err
		}
	}
	delete(p.Record.Holders, h.Name)
	return nil
}

// unmount ends the pod, has a Job unmount the place, and then deletes the Deployment. It describes
// what is left to do, or returns "".
func (p *Pass) unmount(ctx context.Context, h Retired, node *corev1.Node, job *batchv1.Job,
	w objects.Desired) (left string, err error) {
	if gone, err := p.scaleDown(ctx, h); err != nil || !gone {
		return h.place() + ": the pod that holds it has to end", err
	}
	if !contract.NodeReady(node) {
		return h.place() + ": the node is not ready", nil
	}
	switch {
	case job == nil:
		if there, err := p.exists(ctx, h); err != nil || !there {
			return h.place() + ": its Deployment is gone or has a pod again", err
		}
		// last: the request before may take long, and the process may stand still at any time
		if sleep.Elapsed(p.snapshot.at, p.Now()) > fresh {
			return h.place() + ": what uses it is read again", nil
		}
		err := p.Client.Create(ctx, p.Unmounter(p.Resource, h.Deployment, p.RecordOf(h.Deployment)))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create the Job that unmounts %s: %w", h.place(), err)
		}
	case !metav1.IsControlledBy(job, h.Deployment): // of an earlier Deployment
		return h.place() + ": an earlier Job has to go", p.remove(ctx, job)
	default:
		return p.outcome(ctx, h, job, w.Forced)
	}
	return h.place() + ": it is being unmounted", nil
}

// outcome handles a Job that unmounts the place.
func (p *Pass) outcome(ctx context.Context, h Retired, job *batchv1.Job, forced bool) (left string, err error) {
	place := h.place()
	how, at, message := jobResult(job)
	switch how {
	case batchv1.JobComplete:
		p.Event(h.Deployment, corev1.EventTypeNormal, events.PoolUnmounted, "unmounted "+place)
		return "", p.forget(ctx, h, false)
	case batchv1.JobFailed:
		why, err := p.failureOf(ctx, job, message)
		if err != nil {
			return "", err
		}
		if forced {
			p.Event(h.Deployment, corev1.EventTypeWarning, events.PoolNotUnmounted, place+" stays mounted until the node "+
				"restarts, because the resource is deleted by force: "+why)
			return "", p.remove(ctx, h.Deployment) // the record keeps it for another resource
		}
		if p.Now().Sub(at.Time) > retryAfter {
			p.Event(h.Deployment, corev1.EventTypeWarning, events.PoolNotUnmounted, place+": "+why+"; trying again")
			err = p.remove(ctx, job)
		}
		return place + ": " + why, err
	}
	starting, err := p.notStarting(ctx, job)
	return place + ": " + cmp.Or(starting, "it is being unmounted"), err
}
