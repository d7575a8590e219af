package release

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
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

// The volumes of every pool that the record or an agent of the node has at the holder's path may be
// on its disk, where an earlier version let two pools meet.
func TestPoolsAtOnePath(t *testing.T) {
	h := poolrecord.Holder{Pool: "b", Node: "n1", Path: "/b/csi"}
	p := &Pass{Record: &poolrecord.Record{Content: poolrecord.Content{Offer: poolrecord.Offer{Pools: []poolrecord.Pool{
		{Name: "c", Path: "/b/csi"}, {Name: "a", Path: "/a/csi"}}}}}, snapshot: snapshot{agents: []agent{
		{node: "n1", pools: []poolrecord.Pool{{Name: "d", Path: "/b/csi"}}}, {node: "n2", pools: []poolrecord.Pool{{Name: "e", Path: "/b/csi"}}}}}}
	if got := p.poolsAt(h); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("%q", got)
	}
}
