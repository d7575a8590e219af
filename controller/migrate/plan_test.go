package migrate

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUsers(t *testing.T) {
	of := func(name string, phase corev1.PodPhase, source corev1.VolumeSource) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}}
	}
	named := func(claim string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	got := users([]corev1.Pod{
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

// The plan that the README shows is one as it is printed, with reasons as they are given.
func TestReadmeShowsAPlan(t *testing.T) {
	directory := func(pv string) string { return "/var/hpvolumes/" + pv }
	r := Report{Node: "node-01", Mode: Plan}
	for _, e := range []Entry{
		{PV: "pvc-35aaaf25-d060-407c-957a-0db5f42b3042", Claim: "shop/data-db-0", To: "csi", Verdict: Waiting,
			Reason: "pod shop/db-0 uses it; it is moved when that has gone, or now with --migrate-used"},
		{PV: "pvc-406ded47-3769-4f65-84ac-bc3574b6502c", Claim: "shop/uploads", To: "csi", Verdict: Ready},
		{PV: "pvc-46d261c2-d163-4fe1-bb0f-c94ff72f96c4", Claim: "vms/disk-1", To: "csi", Verdict: Refused,
			Reason: `the PV has finalizers of somebody else, who might miss it: ["backup.example.com/hold"]`},
		{PV: "pvc-593af6ba-0879-426e-8151-3602ad5bad7d", Claim: "vms/disk-2", Verdict: Migrated},
	} {
		e.Directory = directory(e.PV)
		r.Entries = append(r.Entries, e)
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if line = "    " + strings.TrimRight(line, " \n") + "\n"; !strings.Contains(string(readme), line) {
			t.Errorf("the README lacks the line\n%s", line)
		}
	}
}
