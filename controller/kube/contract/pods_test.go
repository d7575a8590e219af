package contract

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimUsers(t *testing.T) {
	of := func(name string, phase corev1.PodPhase, source corev1.VolumeSource) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}}
	}
	named := func(claim string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	got := ClaimUsers([]corev1.Pod{
		of("runs", corev1.PodRunning, named("a")), of("waits", corev1.PodPending, named("b")), of("ended", corev1.PodSucceeded, named("c")),
		of("failed", corev1.PodFailed, named("d")), of("generic", corev1.PodRunning, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
		of("none", corev1.PodRunning, corev1.VolumeSource{}),
	})
	want := map[string]string{"default/a": "default/runs", "default/b": "default/waits", "default/generic-v": "default/generic"}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for claim, pod := range want {
		if got[claim] != pod {
			t.Errorf("claim %s is used by %q, want %q", claim, got[claim], pod)
		}
	}
}
