package migrate

import (
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

func TestPrint(t *testing.T) {
	var out strings.Builder
	r := Report{Node: "node-01", Mode: Plan, Entries: []Entry{
		{PV: "pv-a", Claim: "default/a", Directory: "/pool/a", To: "csi", Verdict: Ready},
		{PV: "pv-b", Directory: "/etc", Verdict: Refused, Reason: "not ours"},
	}}
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	const want = `node node-01, --migrate-to-csi=plan: 1 ready, 1 refused
PV    CLAIM      DIRECTORY  TO   VERDICT  REASON
pv-a  default/a  /pool/a    csi  ready    
pv-b  -          /etc       -    refused  not ours
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
