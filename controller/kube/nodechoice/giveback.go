package nodechoice

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// GiveBack removes the scheduler's choice of a node from an unbound claim, so that the
// scheduler chooses again, and records an event. why is what happened to the node.
//
// The caller has read the claim and the node from the API server. The claim is changed only
// as it was read: if it was changed since, the error is a conflict.
func GiveBack(ctx context.Context, client kubernetes.Interface, recorder *events.Recorder,
	claim *corev1.PersistentVolumeClaim, why string) error {
	if _, err := Unchoose(ctx, client, claim); err != nil {
		return fmt.Errorf("remove the annotation %s: %w", contract.AnnSelectedNode, err)
	}
	node := claim.Annotations[contract.AnnSelectedNode]
	recorder.Note(ctx, events.Claim(claim), topicNodeGone+" "+node, events.NodeGone, fmt.Sprintf(
		"node %s, which the scheduler had chosen for this claim, %s: the scheduler chooses again", node, why))
	return nil
}

// Unchoose removes the scheduler's choice of a node from a claim, of which it reads only name, UID
// and version. If the claim was changed since, the error is a conflict. An older ClusterRole allows
// to update claims and not to patch them: Unchoose then reads the claim and updates it.
func Unchoose(ctx context.Context, client kubernetes.Interface,
	claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion,
		"annotations": map[string]any{contract.AnnSelectedNode: nil},
	}})
	if err != nil {
		return nil, err
	}
	api := client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	patched, err := api.Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		return patched, err
	}
	now, err := live.NamedClaim(ctx, client, claim.Namespace, claim.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != claim.UID || now.ResourceVersion != claim.ResourceVersion:
		return nil, apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name,
			fmt.Errorf("the claim was changed since version %s", claim.ResourceVersion))
	}
	delete(now.Annotations, contract.AnnSelectedNode)
	return api.Update(ctx, now, metav1.UpdateOptions{})
}
