package harness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Jobs has the pods of Jobs in the agents' namespace end, as kubelets do, until the test ends.
// fails returns the last words of a pod that fails, "" if it succeeds.
func (s *Scene) Jobs(fails func(*corev1.Pod) string) {
	s.eachPod(func(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod) {
		if !OfJob(pod) || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			return
		}
		phase, code, words := corev1.PodSucceeded, 0, fails(pod)
		if words != "" {
			phase, code = corev1.PodFailed, 1
		}
		patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":%q,"image":"i","imageID":"i","ready":false,"restartCount":0,
			"state":{"terminated":{"exitCode":%d,"message":%q}}}]}}`, phase, pod.Spec.Containers[0].Name, code, words)
		// or at the next pass
		_, _ = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	})
}

// OfJob reports whether a Job made the pod.
func OfJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}
