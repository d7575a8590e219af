package suite

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// olderPV is the PV of a claim as the provisioner before this one made it: the whole disk as its
// capacity, a path without a type, and neither our label nor the pool.
func olderPV(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, directory string) *corev1.PersistentVolume {
	pv := handmadePV(s, a, claim.UID, claim.Name)
	pv.Labels = nil
	pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("251Gi")
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: filepath.Join(a.Pool, directory)}
	return pv
}

// older puts a directory with data and its PV there.
func older(s *harness.Scene, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	s.Helper()
	s.Write(pv.Spec.HostPath.Path, "data", []byte("precious"))
	return save(s, pv)
}

// waitingAgent is an agent that has not been started yet.
func waitingAgent(t *testing.T) (*harness.Scene, *harness.Agent) {
	t.Helper()
	s := env.Scene(t)
	return s, s.Later(s.Node("01"), harness.Options{})
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		prefix string
	}{{"plain name", ""}, {"name with the claim's", "data-"}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, a := waitingAgent(t)
			claim := s.Create(harness.Claim{Name: "data", Node: a.Node.Name, Size: "16Mi"})
			name := test.prefix + harness.PVName(claim)
			pv := older(s, olderPV(s, a, claim, name))
			s.Bound(claim)

			a.Restart()
			a.AwaitReady()
			s.Eventually("label and pool", func() error {
				now := s.PV(pv.Name)
				if now.Labels[harness.LabelNode] != a.Node.Name || now.Annotations[harness.AnnPool] != a.Inspect().Pool.ID {
					return fmt.Errorf("labels %v, annotations %v", now.Labels, now.Annotations)
				}
				return a.MetricIs(16<<20, "kubevirt_hpp_pool_allocated_bytes")
			})
			if v := a.Volume(name); !v.Adopted || v.State != "bound" || v.Bytes != 16<<20 || v.PV != pv.Name || v.Owner.UID != string(claim.UID) {
				t.Errorf("record %+v, want bound, adopted, 16Mi, PV %s", v, pv.Name)
			}
			if err := s.Unwarned(pv.UID); err != nil {
				t.Error(err)
			}
			s.Delete(claim)
			s.Gone(pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// A claim may be deleted while no provisioner runs, such as in the middle of the upgrade. Its PV may
// as well have been applied from a backup, to a copy of the directory: an event asks.
func TestAdoptReleased(t *testing.T) {
	t.Parallel()
	s, a := waitingAgent(t)
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	pv := older(s, olderPV(s, a, claim, harness.PVName(claim)))
	s.Bound(claim)
	s.Delete(claim)
	s.Released(pv.Name)
	a.Restart()
	a.AwaitReady()
	told := func() error {
		return onlyWarning(s, pv, harness.ReasonDelete, "not bound to a claim since", annDeleteVolume+"="+string(pv.UID))
	}
	s.Eventually("event", told)
	s.Holds(a, "kept", func() error { return firstError(told(), harness.Exists(filepath.Join(a.Pool, pv.Name))) })
	s.PatchPV(pv.Name, `{"metadata":{"annotations":{"`+annDeleteVolume+`":"`+string(pv.UID)+`"}}}`)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// A PV that could not have come from the provisioner before this one is left alone, also once it is
// released.
func TestAdoptPretender(t *testing.T) {
	t.Parallel()
	s, a := waitingAgent(t)
	genuine := s.Create(harness.Claim{Node: a.Node.Name})
	older(s, olderPV(s, a, genuine, harness.PVName(genuine)))

	elsewhere, misnamed := s.Create(harness.Claim{Node: a.Node.Name}), s.Create(harness.Claim{Node: a.Node.Name})
	wrongPath := older(s, olderPV(s, a, elsewhere, "backup"))
	wrongName := olderPV(s, a, misnamed, harness.PVName(misnamed))
	wrongName.Name = s.Name + "-important"
	wrongName = older(s, wrongName)
	s.Bound(genuine)
	for _, c := range []*corev1.PersistentVolumeClaim{elsewhere, misnamed} {
		s.Eventually("claim bound", func() error { return s.IsBound(c) })
		s.Delete(c)
	}
	a.Restart()
	a.AwaitReady()
	for _, pv := range []*corev1.PersistentVolume{wrongPath, wrongName} {
		s.Released(pv.Name)
		s.AwaitWarning(a, pv.UID, harness.ReasonRefused, a.Node.Name)
		now := s.PV(pv.Name)
		if len(now.Labels) != 0 || len(now.Finalizers) != len(pv.Finalizers) {
			t.Errorf("PV %s was changed: labels %v, finalizers %v", pv.Name, now.Labels, now.Finalizers)
		}
		if err := harness.Exists(filepath.Join(pv.Spec.HostPath.Path, "data")); err != nil {
			t.Error(err)
		}
	}
	if got := a.Inspect().Volumes; len(got) != 1 || got[0].Name != harness.PVName(genuine) {
		t.Errorf("volumes %+v, want the genuine one alone", got)
	}
}
