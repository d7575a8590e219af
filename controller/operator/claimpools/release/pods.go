package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// notStarting returns why the pod of a Job does not start, "" if nothing prevents it.
func (p *Pass) notStarting(ctx context.Context, job *batchv1.Job) (why string, err error) {
	pods, err := p.podsOf(ctx, job)
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

func (p *Pass) podsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := p.Live.List(ctx, &pods, client.InNamespace(p.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", job.Name, err)
	}
	return pods.Items, nil
}

// scaleDown has the holder's pod end, and reports whether it is gone: a pod that runs would mount
// again.
func (p *Pass) scaleDown(ctx context.Context, h Retired) (bool, error) {
	d := h.Deployment
	if !h.ended() {
		if h.Unmounted { // its pod came back since, and mounted the disk again
			h.Unmounted = false
			p.Record.Holders[h.Name] = h.Holder
			if err := p.Save(ctx); err != nil {
				return false, err
			}
		}
		return false, p.patch(ctx, d, map[string]any{"spec": map[string]any{"replicas": 0}})
	}
	if d.Status.ObservedGeneration != d.Generation {
		return false, nil
	}
	pods, err := p.holderPods(ctx, h.Holder)
	return err == nil && len(pods) == 0, err
}

// holderPods reads the holder's pods that are on the node and have not ended.
func (p *Pass) holderPods(ctx context.Context, h poolrecord.Holder) (there []corev1.Pod, err error) {
	var pods corev1.PodList
	err = p.Live.List(ctx, &pods, client.InNamespace(p.Namespace),
		client.MatchingLabels{objects.HolderLabel: objects.LabelOf(h.Pool)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of pool %s: %w", h.Pool, err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == h.Node && !contract.PodEnded(&pod) {
			there = append(there, pod)
		}
	}
	return there, nil
}

// End has the holder's pod end if it cannot mount its claim, which is being deleted: the claim is
// gone then, and made again. It does nothing while the pod has the claim mounted, or its node does
// not answer.
func (p *Pass) End(ctx context.Context, h Retired) error {
	node, err := p.Node(ctx, h.Node)
	if err != nil || node == nil || !contract.NodeReady(node) {
		return err
	}
	if mounts, err := p.Mounts(ctx, h.Holder); mounts || err != nil {
		return err
	}
	_, err = p.scaleDown(ctx, h)
	return err
}

// patch changes the Deployment as it was read, and no other of its name.
func (p *Pass) patch(ctx context.Context, d *appsv1.Deployment, change map[string]any) error {
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
	if err := p.Client.Patch(ctx, d.DeepCopy(), client.RawPatch(types.MergePatchType,
		text)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change Deployment %s: %w", d.Name, err)
	}
	return nil
}

// exists reads from the API server whether the Deployment is there, and asks for no pod still: a Job whose
// owner is gone is deleted at once, which would make the next pass create it again, and another operator
// may have given the holder its pod back. The operator may list Deployments, and not get them.
func (p *Pass) exists(ctx context.Context, h Retired) (bool, error) {
	var all appsv1.DeploymentList
	err := p.Live.List(ctx, &all, client.InNamespace(p.Namespace),
		client.MatchingLabels{objects.PoolLabel: objects.LabelOf(h.Pool)})
	if err != nil {
		return false, fmt.Errorf("list the Deployments of pool %s: %w", h.Pool, err)
	}
	return slices.ContainsFunc(all.Items, func(d appsv1.Deployment) bool {
		return d.UID == h.Deployment.UID && d.DeletionTimestamp == nil && d.Spec.Replicas != nil && *d.Spec.Replicas == 0
	}), nil
}

// failureOf returns the last line that the pod of a failed Job logged, or else the message of the
// Job's condition.
func (p *Pass) failureOf(ctx context.Context, job *batchv1.Job, message string) (string, error) {
	pods, err := p.podsOf(ctx, job)
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

// Node reads a Node from the API server, nil if it does not exist or the name is "".
func (p *Pass) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := p.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	if name == "" || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return node, nil
}

// jobResult returns how and when the Job ended.
func jobResult(job *batchv1.Job) (how batchv1.JobConditionType, at metav1.Time, message string) {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type, c.LastTransitionTime, c.Message
		}
	}
	return "", metav1.Time{}, ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
