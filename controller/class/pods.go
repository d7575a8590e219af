package class

import corev1 "k8s.io/api/core/v1"

// ClaimUsers maps each claim that the pods use, by namespace/name, to one of these
// pods. A pod that ended uses no claim any more.
func ClaimUsers(pods []corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
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
