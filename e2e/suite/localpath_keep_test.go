package suite

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Kept data of the local-path provisioner goes to the next claim, with its files.
func TestLocalPathKeptDataIsReused(t *testing.T) {
	t.Parallel()
	for _, p := range otherProvisioners[1:] {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			a := s.Later(node, localPathOptions(s, node.Pool))
			h := newTheirs(s, a, p)
			s.PatchPV(h.pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
			a.Restart()
			a.AwaitReady()
			s.Eventually("adopted", func() error { return isVolume(a, h.path, "bound", h.claim) })
			s.Delete(h.claim)
			s.Released(h.pv.Name)
			s.PatchPV(h.pv.Name, `{"spec":{"claimRef":null}}`)
			next := s.Create(harness.Claim{Name: "next", Class: h.pv.Spec.StorageClassName, Edit: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName = h.pv.Name
			}})
			s.Eventually("bound to the next claim", func() error {
				return firstError(s.IsBound(next), isVolume(a, h.path, "bound", next))
			})
			h.find()
			s.PatchPV(h.pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
			s.Delete(next)
			s.Gone(h.pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// isVolume returns nil if the directory's record has the state and the claim.
func isVolume(a *harness.Agent, path, state string, claim *corev1.PersistentVolumeClaim) error {
	volumes := a.Inspect().Volumes
	for _, v := range volumes {
		if v.Name == filepath.Base(path) && v.State == state && v.Owner.UID == string(claim.UID) {
			return nil
		}
	}
	return fmt.Errorf("volumes %+v, want %s %s of claim %s", volumes, path, state, claim.UID)
}

// A PV that differs in one byte from what the local-path provisioner writes is left alone, with an
// event, also when it is released.
func TestLocalPathLeavesStrangers(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Later(node, localPathOptions(s, node.Pool))
	var left []*theirs
	for i, directory := range []func(*corev1.PersistentVolumeClaim) string{
		func(c *corev1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }, // of a template
		func(c *corev1.PersistentVolumeClaim) string { return localPathDirectory(c) + "x" },
		func(c *corev1.PersistentVolumeClaim) string {
			return harness.PVName(c) + "-" + c.Namespace + "_" + c.Name
		},
		func(c *corev1.PersistentVolumeClaim) string { return "../" + localPathDirectory(c) }, // outside
	} {
		p := otherProvisioners[1+i%2]
		p.directory = directory
		left = append(left, newTheirs(s, a, p))
	}
	genuine := newTheirs(s, a, otherProvisioners[1])
	a.Restart()
	a.AwaitReady()
	for _, h := range left {
		s.Delete(h.claim)
		s.Released(h.pv.Name)
		s.AwaitWarning(a, h.pv.UID, harness.ReasonRefused, node.Name, "leaves this PV and its data alone")
		now := s.PV(h.pv.Name)
		if len(now.Labels) != 0 || len(now.Finalizers) != len(h.pv.Finalizers) {
			t.Errorf("PV %s of %s was changed: labels %v, finalizers %v", now.Name, h.path, now.Labels, now.Finalizers)
		}
		h.find()
	}
	if got := a.Inspect().Volumes; len(got) != 1 || got[0].Name != filepath.Base(genuine.path) {
		t.Errorf("volumes %+v, want the genuine one alone", got)
	}
}
