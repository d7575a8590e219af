package agentstatus

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// OnNode reads from the API server whether a pod of a DaemonSet in the namespace is ready on the node,
// and if not since when at the earliest. An error is a live.Unanswered.
func OnNode(ctx context.Context, client kubernetes.Interface, namespace, node string) (ready bool, unready time.Time, err error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return false, unready, live.Unanswered{Request: "list pods of node " + node, Err: err}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !contract.OfDaemonSet(pod) {
			continue
		}
		since, not := contract.UnreadySince(pod)
		if !not {
			return true, time.Time{}, nil
		}
		if since.After(unready) {
			unready = since
		}
	}
	return false, unready, nil
}
