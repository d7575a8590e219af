package contract

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimUsers maps namespace/name of each claim that the pods use to namespace/name of
// one of its pods. It ignores pods that have ended.
func ClaimUsers(pods []corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, pod := range pods {
		if PodEnded(&pod) {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			var name string
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = pod.Name + "-" + v.Name
			default:
				continue
			}
			all[pod.Namespace+"/"+name] = pod.Namespace + "/" + pod.Name
		}
	}
	return all
}

// OfDaemonSet reports whether a DaemonSet controls the pod, as one controls the agents.
func OfDaemonSet(pod *corev1.Pod) bool {
	c := metav1.GetControllerOf(pod)
	return c != nil && c.Kind == "DaemonSet"
}

// PodEnded reports whether all containers of the pod have ended for good.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodReady reports whether the kubelet found all containers of the pod ready.
func PodReady(pod *corev1.Pod) bool {
	_, unready := UnreadySince(pod)
	return !unready
}

// UnreadySince returns the time since which the pod has not been ready: that of its creation, or
// when it ceased to be. unready is false for a pod that is ready.
func UnreadySince(pod *corev1.Pod) (since time.Time, unready bool) {
	since = pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != corev1.PodReady:
		case c.Status == corev1.ConditionTrue:
			return time.Time{}, false
		case c.LastTransitionTime.After(since):
			since = c.LastTransitionTime.Time
		}
	}
	return since, true
}

// NodeReady reports whether the kubelet of the node said, not long ago, that it is ready.
func NodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
