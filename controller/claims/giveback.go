package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
)

// topicNodeGone is the topic of claims that were given back because their node is gone.
const topicNodeGone = "node gone"

// GiveBack removes the scheduler's choice of a node from an unbound claim, so that the
// scheduler chooses again, and records an event. why says what happened to the node.
//
// The caller has read the claim and the node from the API server. The claim is changed only
// as it was read: if it was changed since, the error is a conflict.
func GiveBack(ctx context.Context, client kubernetes.Interface, recorder *events.Recorder, claim *corev1.PersistentVolumeClaim, why string) error {
	node := claim.Annotations[class.AnnSelectedNode]
	claim = claim.DeepCopy()
	delete(claim.Annotations, class.AnnSelectedNode)
	if _, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("remove the annotation %s: %w", class.AnnSelectedNode, err)
	}
	recorder.Note(ctx, events.Claim(claim), topicNodeGone+" "+node, events.NodeGone, fmt.Sprintf(
		"node %s, which the scheduler had chosen for this claim, %s: the scheduler chooses again", node, why))
	return nil
}
