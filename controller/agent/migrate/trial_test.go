package migrate

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The new PV is tried under a free name of the shape that provisioners give, which volume and claim
// follow, because policies tie them. That such a PV is refused says nothing about the one to be made.
func TestNewPVIsTriedUnderAFreeName(t *testing.T) {
	m, pvs := many(t, 1)
	old := pvs.all[0]
	var tried []*corev1.PersistentVolume
	m.Client.(apitest.Lister).PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.CreateActionImpl).Object.(*corev1.PersistentVolume)
		if !isDry(a) || pv.Name == old.Name {
			return false, nil, nil
		}
		tried = append(tried, pv)
		return true, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumes"), pv.Name, nil)
	})
	f := m.check(t.Context())[0]
	if f, err := m.prepare(t.Context(), f); err != nil || f.Verdict != Ready {
		t.Errorf("%s: %s, %v", f.Verdict, f.Reason, err)
	}
	if len(tried) != 1 {
		t.Fatalf("tried %d times", len(tried))
	}
	pv := tried[0]
	uid, is := strings.CutPrefix(pv.Name, "pvc-")
	if !is || len(uid) != 36 || contract.ClaimUID(pv) != uid || pv.Spec.CSI.VolumeHandle != pv.Name {
		t.Errorf("PV %s with the handle %s for the claim %s", pv.Name, pv.Spec.CSI.VolumeHandle, contract.ClaimUID(pv))
	}
	if back := renamed(older(), "1"); back.Name != "pvc-1" || back.Spec.HostPath.Path != "/pool/pvc-1" || contract.ClaimUID(back) != "1" {
		t.Errorf("PV %s in %s for the claim %s", back.Name, back.Spec.HostPath.Path, contract.ClaimUID(back))
	}
}

// A step that seems to have no effect is not taken again without a pause, whatever it is: another
// program may delete the new PV each time.
func TestStepsWithoutEffectArePaced(t *testing.T) {
	m, j := begun(t, func(*corev1.PersistentVolume) {})
	if err := j.advance(record.CutOver()); err != nil {
		t.Fatal(err)
	}
	j.step = record.MigrationCutover
	client, made := m.Client.(apitest.Lister), 0
	client.PrependReactor("get", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), pvName)
	})
	client.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		made++
		return true, a.(clienttesting.CreateActionImpl).Object, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*pollEvery)
	defer cancel()
	_ = m.move(ctx, j)
	if made < 2 || made > atOnce+10 {
		t.Errorf("made %d times in %v", made, 5*pollEvery)
	}
}
