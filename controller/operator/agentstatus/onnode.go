package agentstatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// OnNode reads from the API server a pod of a DaemonSet in the namespace that is ready on the node, nil if
// there is none, and since when at the earliest there has been none. An error is a live.Unanswered.
func OnNode(ctx context.Context, client kubernetes.Interface, namespace,
	node string) (ready *corev1.Pod, unready time.Time, err error) {
	return readyOn(ctx, client, namespace, node, "")
}

// agents selects the agents of every form.
const agents = "k8s-app in (hostpath-provisioner,hostpath-provisioner-csi,hostpath-provisioner-local-path)"

// Anywhere is OnNode for the agents of all namespaces, by their label. A tenant's pod can have it, so that
// the answer only delays.
func Anywhere(ctx context.Context, client kubernetes.Interface,
	node string) (ready *corev1.Pod, unready time.Time, err error) {
	return readyOn(ctx, client, metav1.NamespaceAll, node, agents)
}

func readyOn(ctx context.Context, client kubernetes.Interface, namespace, node,
	selector string) (ready *corev1.Pod, unready time.Time, err error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector,
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, unready, live.Unanswered{Request: "list pods of node " + node, Err: err}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !contract.OfDaemonSet(pod) {
			continue
		}
		since, not := contract.UnreadySince(pod)
		if !not {
			return pod, time.Time{}, nil
		}
		if since.After(unready) {
			unready = since
		}
	}
	return nil, unready, nil
}
