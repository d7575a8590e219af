package recovery

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

// A handle means a volume of its own driver alone: another driver's PV of the name, Bound to the claim,
// is not the volume's and gets no policy.
func TestRecoverDriver(t *testing.T) {
	l := newLost(t, 2)
	l.plan.Agent.Driver = "own"
	for i, v := range l.plan.Volumes {
		l.plan.Volumes[i].Created = created.Add(2 * time.Hour) // than which the namespace is older
		v.Objects.PV.Spec.CSI.Driver = "own"
	}
	l.run()
	l.bound("with a driver of another name")

	foreign := l.pv("pvc-0")
	foreign.Spec.CSI.Driver, foreign.Annotations = "theirs", map[string]string{contract.AnnFormerPolicy: "Delete"}
	foreign.Spec.PersistentVolumeReclaimPolicy = "Retain"
	_, err := l.objects.CoreV1().PersistentVolumes().Update(t.Context(), foreign, metav1.UpdateOptions{})
	l.must(err)
	all := l.run()
	if all[0].Verdict != recovery.Left || !strings.Contains(all[0].Why, "names another volume") || all[1].Verdict != recovery.There || l.writes != 0 {
		t.Errorf("%+v, %+v, %d writes", all[0].Finding, all[1].Finding, l.writes)
	}
	if done, err := l.policy(t.Context(), all[0], l.plan.Volumes); done || err != nil {
		t.Errorf("a foreign PV gets a policy: %v, %v", done, err)
	}
}
