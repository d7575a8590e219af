package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// lateTest is a filter to which a claim without a node was reported before its PV was known.
func lateTest(t *testing.T) (f *filterTest, claim *corev1.PersistentVolumeClaim, appears func()) {
	f = newFilterTest(t)
	known := make(chan struct{})
	f.placer.isLocalPV = func(string) bool {
		select {
		case <-known:
			return true
		default:
			return false
		}
	}
	claim = classtest.Claim("a", "wait", "pv-late")
	claim.Status.Phase = corev1.ClaimBound
	f.there[claim.Name] = claim
	f.source.Add(claim.DeepCopy())
	f.nothing()
	return f, claim, func() {
		close(known)
		f.boundHere(contract.Named{Namespace: claim.Namespace, Name: claim.Name}, claim.UID)
	}
}

// A claim whose PV is labelled after the claim's last event is followed from then on.
func TestClaimOfAPVThatAppears(t *testing.T) {
	f, claim, appears := lateTest(t)
	appears()
	if f.placeLate() {
		t.Error("it was not read")
	}
	f.next(watch.Added, "a")
	f.next(watch.Bookmark, "")
	if len(f.late) != 0 {
		t.Errorf("it is remembered: %v", f.late)
	}
	f.boundHere(contract.Named{Namespace: claim.Namespace, Name: claim.Name}, claim.UID)
	if len(f.late) != 0 {
		t.Error("a claim that is followed is read again")
	}
}

// What was read is older than an event that came meanwhile, which alone counts.
func TestClaimOfAPVThatAppearsIsDeleted(t *testing.T) {
	f, claim, appears := lateTest(t)
	appears()
	f.source.Delete(claim.DeepCopy())
	f.nothing()
	f.retryRead(map[types.UID]*corev1.PersistentVolumeClaim{claim.UID: claim})
	f.nothing()
	if len(f.passed) > 0 {
		t.Errorf("passed %v", f.passed)
	}
}

// The API server does not answer, and then the claim is gone, or another one has its name.
func TestClaimOfAPVThatAppearsIsReadAgain(t *testing.T) {
	f, claim, appears := lateTest(t)
	f.there[claim.Name] = nil
	appears()
	if !f.placeLate() || len(f.late) != 1 {
		t.Errorf("a claim that could not be read is not read again: %v", f.late)
	}
	f.there[claim.Name] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, UID: "another"}}
	if f.placeLate() || len(f.late) != 0 {
		t.Errorf("a claim that is gone is read again: %v", f.late)
	}
	f.nothing()
}
