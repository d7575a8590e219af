package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// withoutFinalizers returns the command of docs/from-kubevirt.md that removes finalizers, for the
// PVs of one node alone, because tests share the cluster.
func withoutFinalizers(s *harness.Scene, node harness.Node) string {
	s.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "from-kubevirt.md"))
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if command := strings.Replace(line, harness.LabelNode+" ", harness.LabelNode+"="+node.Name+" ", 1); command != line {
			return command
		}
	}
	s.Fatalf("docs/from-kubevirt.md has no command that selects PVs by the label %s", harness.LabelNode)
	return ""
}

// deleteAsOlder deletes a released hostPath PV as the provisioner before this one does: by the
// annotations of the PV, the directory first. It has neither records nor finalizers.
func deleteAsOlder(s *harness.Scene, a *harness.Agent, name string) {
	s.Helper()
	pv := s.PV(name)
	if pv.Status.Phase != corev1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		pv.Annotations[harness.AnnProvisionedBy] != harness.Provisioner || pv.Annotations[harness.AnnIdentity] != harness.Provisioner ||
		pv.Annotations[harness.AnnProvisionOnNode] != a.Node.Name || pv.Spec.HostPath == nil {
		s.Fatalf("the older provisioner would ignore PV %+v", pv)
	}
	if err := os.RemoveAll(pv.Spec.HostPath.Path); err != nil {
		s.Fatal(err)
	}
	if err := s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// othersPV is a PV of another provisioner, which the agent serves too: a local-path PV that it adopted.
func othersPV(s *harness.Scene, a *harness.Agent) string {
	s.Helper()
	pv := handmadePV(s, a, "", "")
	pv.Name = s.ClassName("others")
	pv.Annotations = map[string]string{harness.AnnProvisionedBy: localPath}
	pv.Finalizers = []string{finalizer}
	pv.Spec.ClaimRef, pv.Spec.StorageClassName = nil, pv.Name
	return save(s, pv).Name
}

// wantData fails the test unless the directory of the claim's volume has its file.
func wantData(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	if data, err := os.ReadFile(filepath.Join(a.Pool, harness.PVName(claim), "data")); string(data) != "precious" {
		s.Errorf("the volume of claim %s has %q, %v", claim.Name, data, err)
	}
}

// afterRollback starts the agent again after an older provisioner has deleted the volumes of gone
// and created that of added: it serves the volumes that exist, and removes the records of the
// others as orphans.
func afterRollback(s *harness.Scene, a *harness.Agent, o harness.Options, kept, added *corev1.PersistentVolumeClaim, gone int) {
	s.Helper()
	o.Flags = append(o.Flags, "--orphans=delete", "--orphan-grace=0s")
	a.RestartAs(o)
	a.AwaitReady()
	s.Eventually(fmt.Sprintf("%d records of deleted volumes removed", gone), func() error {
		var names []string
		for _, v := range a.Inspect().Volumes {
			if v.State != "bound" {
				return fmt.Errorf("volume %+v", v)
			}
			names = append(names, v.Name)
		}
		want := []string{harness.PVName(kept), harness.PVName(added)}
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			return fmt.Errorf("volumes %q, want %q", names, want)
		}
		return nil
	})
	wantData(s, a, kept)
	for _, claim := range []*corev1.PersistentVolumeClaim{kept, added} {
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
	}
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// A provisioner before this one serves the hostPath PVs of the agent after the steps of
// docs/from-kubevirt.md, and the agent serves those of both when it returns. That provisioner is
// not part of this repository; deleteAsOlder does what it does.
func TestRollback(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	var claims [3]*corev1.PersistentVolumeClaim
	for i := range claims {
		claims[i] = s.Create(harness.Claim{Node: a.Node.Name})
		s.Bound(claims[i])
		s.Write(filepath.Join(a.Pool, harness.PVName(claims[i])), "data", []byte("precious"))
	}
	kept, deleted, early := claims[0], claims[1], claims[2]
	s.Eventually("records bound", func() error {
		for _, c := range claims {
			if v := a.Volume(harness.PVName(c)); v.State != "bound" {
				return fmt.Errorf("record %+v", v)
			}
		}
		return nil
	})
	a.Stop()

	s.Delete(early) // before the command: its PV stays Terminating
	s.Released(harness.PVName(early))
	deleteAsOlder(s, a, harness.PVName(early))
	s.LocalPV("later", "/nowhere") // what Kubernetes does about a deleted PV, it does about the other first
	if err := s.Client.CoreV1().PersistentVolumes().Delete(t.Context(), s.ClassName("later"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Gone(s.ClassName("later"))
	s.Once("the PV with the finalizer stays", func() error {
		if pv := s.PV(harness.PVName(early)); pv.DeletionTimestamp == nil || !slices.Contains(pv.Finalizers, finalizer) {
			return fmt.Errorf("deleted at %v, with the finalizers %v", pv.DeletionTimestamp, pv.Finalizers)
		}
		return nil
	})
	others := othersPV(s, a)
	s.PatchPV(harness.PVName(kept), fmt.Sprintf(`{"metadata":{"finalizers":[%q,%q]}}`, finalizer, someonesFinalizer))
	s.Shell(withoutFinalizers(s, a.Node))
	s.Gone(harness.PVName(early))
	if pv := s.PV(others); !slices.Contains(pv.Finalizers, finalizer) {
		t.Errorf("another provisioner's PV lost its finalizer, and has %v", pv.Finalizers)
	}
	s.ForcePVAway(others)
	if pv := s.PV(harness.PVName(kept)); !slices.Contains(pv.Finalizers, someonesFinalizer) {
		t.Errorf("the PV lost another controller's finalizer, and has %v", pv.Finalizers)
	}
	s.PatchPV(harness.PVName(kept), `{"metadata":{"finalizers":null}}`)
	for _, claim := range []*corev1.PersistentVolumeClaim{kept, deleted} {
		if pv := s.PV(harness.PVName(claim)); slices.Contains(pv.Finalizers, finalizer) {
			t.Errorf("PV %s has the finalizers %v", pv.Name, pv.Finalizers)
		}
	}
	s.Delete(deleted)
	s.Released(harness.PVName(deleted))
	deleteAsOlder(s, a, harness.PVName(deleted))
	s.Gone(harness.PVName(deleted))
	wantData(s, a, kept)
	if err := s.IsBound(kept); err != nil {
		t.Error(err)
	}
	added := s.Create(harness.Claim{Node: a.Node.Name})
	older(s, olderPV(s, a, added, harness.PVName(added)))
	s.Bound(added)
	afterRollback(s, a, harness.Options{}, kept, added, 2)
}
