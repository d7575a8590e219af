package claimpools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// retired is a holder that is no longer wanted. d is nil if its Deployment does not exist.
type retired struct {
	name string
	Holder
	d *appsv1.Deployment
}

func (h retired) place() string { return fmt.Sprintf("%s on node %s", h.Path, h.Node) }

// about returns what an event of the holder is about.
func (h retired) about(cr *v1beta1.HostPathProvisioner) client.Object {
	if h.d == nil {
		return cr
	}
	return h.d
}

// retire does the next step until what the holder mounted is unmounted, and then deletes the Deployment: the pod ends, and a Job
// unmounts it. A holder that may not end stays.
//
// A node that does not exist has no mount. For one that is not ready nothing is started; if the resource is deleted, the
// Deployment is deleted and the mount stays until the node restarts.
func (k *Keeper) retire(ctx context.Context, cr *v1beta1.HostPathProvisioner, r *Result, h retired, w Wanted) error {
	if h.d != nil && h.d.DeletionTimestamp != nil { // it is created again once it is gone
		r.left(h.place() + ": its Deployment is being deleted")
		return nil
	}
	if h.Unmounted && (h.d == nil || h.d.Spec.Replicas != nil && *h.d.Spec.Replicas == 0) {
		return k.forget(ctx, h)
	}
	node, err := k.node(ctx, h.Node)
	if err != nil {
		return err
	}
	job, err := k.job(ctx, jobOf(h.Pool, h.Node))
	if err != nil {
		return err
	}
	unmounting := job != nil && h.d != nil && metav1.IsControlledBy(job, h.d)
	if !unmounting { // before the pod ends, and again before a Job is created
		why, used, err := k.mayEnd(ctx, h.Holder, node, w)
		switch {
		case err != nil:
			return err
		case used:
			return k.retain(ctx, cr, r, h, why, w)
		case why != "" && node != nil && (contract.NodeReady(node) || !w.Deleted):
			r.left(h.place() + ": " + why)
			return nil
		}
	}
	switch {
	case node == nil || h.Path == "":
		return k.forget(ctx, h)
	case !contract.NodeReady(node) && w.Deleted:
		k.Event(h.about(cr), corev1.EventTypeWarning, "PoolNotUnmounted", fmt.Sprintf("node %s is not ready: %s stays mounted there until the node restarts", h.Node, h.Path))
		return k.forget(ctx, h)
	case h.d == nil: // someone deleted it, and the Job needs it
		r.left(h.place() + ": its Deployment is created again, to unmount it")
		return k.Apply(ctx, k.holder(cr, Pool{Name: h.Pool, Path: h.Path}, h.Node))
	}
	left, err := k.unmount(ctx, cr, h, node, job)
	if left != "" {
		r.left(left)
	}
	return err
}

// retain keeps a holder that may not end, with its pod. If the resource is deleted, the Deployment loses its owner, with which it
// would be deleted.
func (k *Keeper) retain(ctx context.Context, cr *v1beta1.HostPathProvisioner, r *Result, h retired, why string, w Wanted) error {
	if stopped, err := k.stop(ctx, h.Pool, h.Node); err != nil || !stopped { // a Job of an earlier Deployment
		r.left(h.place() + ": an earlier Job has to go")
		return err
	}
	r.Kept = append(r.Kept, fmt.Sprintf("pool %s stays mounted at %s: %s", h.Pool, h.place(), why))
	switch {
	case h.d == nil && w.Deleted:
		return nil // there is no resource that could own it
	case h.d == nil:
		return k.Apply(ctx, k.holder(cr, Pool{Name: h.Pool, Path: h.Path}, h.Node))
	}
	patch := map[string]any{}
	if h.d.Spec.Replicas != nil && *h.d.Spec.Replicas == 0 {
		patch["spec"] = map[string]any{"replicas": 1}
	}
	if w.Deleted && len(h.d.OwnerReferences) > 0 {
		patch["metadata"] = map[string]any{"ownerReferences": nil}
		k.Event(h.d, corev1.EventTypeWarning, "PoolNotUnmounted", h.place()+" stays mounted, by Deployment "+h.name+": "+why)
	}
	return k.patch(ctx, h.d, patch)
}

// forget deletes the Deployment and removes the holder from the record, which says before that nothing is mounted any more. A
// holder without a Deployment would otherwise be mounted again, to be unmounted, if the operator was killed in between.
func (k *Keeper) forget(ctx context.Context, h retired) error {
	if h.d != nil {
		h.Unmounted = true
		k.Known[h.name] = h.Holder
		if err := k.save(ctx); err != nil {
			return err
		}
		if err := k.remove(ctx, h.d); err != nil {
			return err
		}
	}
	delete(k.Known, h.name)
	return nil
}

// unmount ends the pod, has a Job unmount the place, and then deletes the Deployment. It describes what is still to be done, or
// returns "".
func (k *Keeper) unmount(ctx context.Context, cr *v1beta1.HostPathProvisioner, h retired, node *corev1.Node, job *batchv1.Job) (left string, err error) {
	if gone, err := k.end(ctx, h); err != nil || !gone {
		return h.place() + ": the pod that holds it has to end", err
	}
	if !contract.NodeReady(node) {
		return h.place() + ": the node is not ready", nil
	}
	switch {
	case job == nil:
		err := k.Client.Create(ctx, k.unmounter(cr, h.d, h.Node))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create the Job that unmounts %s: %w", h.place(), err)
		}
	case !metav1.IsControlledBy(job, h.d): // of an earlier Deployment
		return h.place() + ": an earlier Job has to go", k.remove(ctx, job)
	default:
		return k.outcome(ctx, h, job)
	}
	return h.place() + ": it is being unmounted", nil
}

// outcome handles a Job that unmounts the place.
func (k *Keeper) outcome(ctx context.Context, h retired, job *batchv1.Job) (left string, err error) {
	place := h.place()
	how, at, message := ended(job)
	switch how {
	case batchv1.JobComplete:
		k.Event(h.d, corev1.EventTypeNormal, "PoolUnmounted", "unmounted "+place)
		return "", k.forget(ctx, h)
	case batchv1.JobFailed:
		why, err := k.why(ctx, job, message)
		if err != nil {
			return "", err
		}
		if k.Now().Sub(at.Time) > retryAfter {
			k.Event(h.d, corev1.EventTypeWarning, "PoolNotUnmounted", place+": "+why+"; trying again")
			err = k.remove(ctx, job)
		}
		return place + ": " + why, err
	}
	starting, err := k.starting(ctx, job)
	return place + ": " + cmp.Or(starting, "it is being unmounted"), err
}

// starting returns why the pod of a Job does not start, "" if nothing keeps it from starting.
func (k *Keeper) starting(ctx context.Context, job *batchv1.Job) (why string, err error) {
	pods, err := k.podsOf(ctx, job)
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Message != "" {
				why = fmt.Sprintf("the pod %s that unmounts it does not start: %s: %s", pod.Name, w.Reason, lastLine(w.Message))
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				why = fmt.Sprintf("the pod %s that unmounts it has no node: %s", pod.Name, c.Message)
			}
		}
	}
	return why, err
}

func (k *Keeper) podsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.Live.List(ctx, &pods, client.InNamespace(k.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", job.Name, err)
	}
	return pods.Items, nil
}

// end has the holder's pod end, and reports whether it is gone: a pod that runs would mount again.
func (k *Keeper) end(ctx context.Context, h retired) (bool, error) {
	d := h.d
	if d.Spec.Replicas == nil || *d.Spec.Replicas != 0 {
		return false, k.patch(ctx, d, map[string]any{"spec": map[string]any{"replicas": 0}})
	}
	if d.Status.ObservedGeneration != d.Generation {
		return false, nil
	}
	var pods corev1.PodList
	err := k.Live.List(ctx, &pods, client.InNamespace(k.Namespace), client.MatchingLabels{holderLabel: labelOf(h.Pool)})
	if err != nil {
		return false, fmt.Errorf("list the pods of %s: %w", d.Name, err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == h.Node && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return false, nil
		}
	}
	return true, nil
}

// patch changes the Deployment as it was read, and no other of its name.
func (k *Keeper) patch(ctx context.Context, d *appsv1.Deployment, change map[string]any) error {
	if len(change) == 0 {
		return nil
	}
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = d.UID, d.ResourceVersion
	change["metadata"] = metadata
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if err := k.Client.Patch(ctx, d.DeepCopy(), client.RawPatch(types.MergePatchType, text)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change Deployment %s: %w", d.Name, err)
	}
	return nil
}

// why returns the last words of the pod of a Job that failed, or else the message of its condition.
func (k *Keeper) why(ctx context.Context, job *batchv1.Job, message string) (string, error) {
	pods, err := k.podsOf(ctx, job)
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && t.Message != "" {
				return lastLine(t.Message), nil
			}
		}
	}
	return cmp.Or(message, "the Job failed"), nil
}

func (k *Keeper) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := k.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	if name == "" || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return node, nil
}
