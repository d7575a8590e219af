package claimpools

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/class"
)

// release does the next step until what the Deployment's pod mounted is unmounted, and then deletes the Deployment: the pod ends,
// and a Job unmounts it. It describes what is still to be done, or returns "".
//
// A node that does not exist has no mount. For one that is not ready nothing is started; if the resource is deleted, the
// Deployment is deleted and the mount stays until the node restarts.
func (k *Keeper) release(ctx context.Context, cr *v1beta1.HostPathProvisioner, d *appsv1.Deployment, deleted bool) (left string, err error) {
	name, path := nodeOf(d), pathOf(d)
	place := fmt.Sprintf("%s on node %s", path, name)
	node, err := k.node(ctx, name)
	switch {
	case err != nil:
		return "", err
	case d.DeletionTimestamp != nil || node == nil || path == "":
		return "", k.remove(ctx, d)
	case !class.NodeReady(node) && deleted:
		k.Event(d, corev1.EventTypeWarning, "PoolNotUnmounted", fmt.Sprintf("node %s is not ready: %s stays mounted there until the node restarts", name, path))
		return "", k.remove(ctx, d)
	}
	if gone, err := k.end(ctx, d); err != nil || !gone {
		return place + ": the pod that holds it has to end", err
	}
	if !class.NodeReady(node) {
		return place + ": the node is not ready", nil
	}
	job, err := k.job(ctx, jobOf(poolOf(d), name))
	if err != nil {
		return "", err
	}
	switch {
	case job == nil:
		err := k.Client.Create(ctx, k.unmounter(cr, d, name))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create the Job that unmounts %s: %w", place, err)
		}
	case len(job.OwnerReferences) != 1 || job.OwnerReferences[0].UID != d.UID: // of an earlier Deployment
		return place + ": an earlier Job has to go", k.remove(ctx, job)
	default:
		return k.outcome(ctx, d, job, place)
	}
	return place + ": it is being unmounted", nil
}

// outcome handles a Job that unmounts the place.
func (k *Keeper) outcome(ctx context.Context, d *appsv1.Deployment, job *batchv1.Job, place string) (left string, err error) {
	how, at, message := ended(job)
	switch how {
	case batchv1.JobComplete:
		k.Event(d, corev1.EventTypeNormal, "PoolUnmounted", "unmounted "+place)
		return "", k.remove(ctx, d)
	case batchv1.JobFailed:
		why, err := k.why(ctx, job, message)
		if err != nil {
			return "", err
		}
		if k.Now().Sub(at.Time) > retryAfter {
			k.Event(d, corev1.EventTypeWarning, "PoolNotUnmounted", place+": "+why+"; trying again")
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

// end has the Deployment's pod end, and reports whether it is gone: a pod that runs would mount again.
func (k *Keeper) end(ctx context.Context, d *appsv1.Deployment) (bool, error) {
	if d.Spec.Replicas == nil || *d.Spec.Replicas != 0 {
		patch := []byte(`{"spec":{"replicas":0}}`)
		if err := k.Client.Patch(ctx, d.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("end the pod of %s: %w", d.Name, err)
		}
		return false, nil
	}
	if d.Status.ObservedGeneration != d.Generation {
		return false, nil
	}
	var pods corev1.PodList
	err := k.Live.List(ctx, &pods, client.InNamespace(k.Namespace), client.MatchingLabels{holderLabel: d.Labels[poolLabel]})
	if err != nil {
		return false, fmt.Errorf("list the pods of %s: %w", d.Name, err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == nodeOf(d) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return false, nil
		}
	}
	return true, nil
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
