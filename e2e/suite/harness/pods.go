package harness

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NewPod returns a pod that mounts the claim and may run on the hostnames; the API server generates
// its name.
func NewPod(claim string, hostnames ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hostnames,
					}}}},
				},
			}},
			Containers: []corev1.Container{{
				Name: "pause", Image: "localhost/hpp-e2e/pause:latest", ImagePullPolicy: corev1.PullIfNotPresent,
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// Pod creates the pod that NewPod returns.
func (s *Scene) Pod(claim string, hostnames ...string) *corev1.Pod {
	s.Helper()
	made, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), NewPod(claim, hostnames...),
		metav1.CreateOptions{})
	s.must("create pod", err)
	return made
}

// Scheduled waits until the pod has a node, and returns its name.
func (s *Scene) Scheduled(pod *corev1.Pod) string {
	s.Helper()
	var node string
	s.Eventually("pod scheduled", func() error {
		p, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = s.NotYet(p.UID, "%s: %v", p.Status.Phase, p.Status.Conditions)
		}
		if err == nil {
			node = p.Spec.NodeName
		}
		return err
	})
	return node
}

// DeletePod deletes the pod without a grace period, because no kubelet ends it.
func (s *Scene) DeletePod(pod *corev1.Pod) {
	s.Helper()
	err := s.Client.CoreV1().Pods(s.Namespace).Delete(s.Context(), pod.Name, *metav1.NewDeleteOptions(0))
	s.must("delete pod", err)
}

// Cordon makes the node unschedulable, or schedulable. It returns when the scheduler knows of a node
// that it must not use any longer.
func (s *Scene) Cordon(node Node, on bool) {
	s.Helper()
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, on)
	_, err := s.Client.CoreV1().Nodes().Patch(s.Context(), node.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	s.must("cordon", err)
	if on {
		s.Eventually("the scheduler knows of the cordon", func() error { return s.placesNothing(node) })
	}
}

// placesNothing returns nil when the scheduler has found that a pod without a volume cannot have the
// node. Its cache follows the API server a moment later.
func (s *Scene) placesNothing(node Node) error {
	marker := NewPod("", node.Hostname)
	marker.Spec.Volumes, marker.Spec.Containers[0].VolumeMounts = nil, nil
	pods := s.Client.CoreV1().Pods(s.Namespace)
	pod, err := pods.Create(s.Context(), marker, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer s.DeletePod(pod)
	for range 500 {
		pod, err := pods.Get(s.Context(), pod.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case pod.Spec.NodeName != "":
			return fmt.Errorf("a pod was placed on %s", node.Name)
		case slices.ContainsFunc(pod.Status.Conditions, refusedByScheduler):
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("the scheduler has not looked at the pod %s in 10 s", pod.Name)
}

func refusedByScheduler(c corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}
