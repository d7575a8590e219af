package release

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// A Job whose pod does not start shows why.
func TestUnmounterThatDoesNotStart(t *testing.T) {
	for want, status := range map[string]corev1.PodStatus{
		"the pod p that unmounts it does not start: ImagePullBackOff: no such image": {ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}},
		"the pod p that unmounts it has no node: 0/1 nodes": {Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes"}}},
		"": {},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: "j"}}, Status: status}
		k := &Pass{Maker: objects.Maker{Installation: apply.Installation{Namespace: "ns"}}, Live: fake.NewClientBuilder().WithObjects(pod).Build()}
		if got, err := k.notStarting(t.Context(), job); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
