package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	reasonMigrating = "Migrating"
	reasonMigrated  = "Migrated"

	annReplaces = "hostpath-provisioner.kubevirt.io/replaces"
	annMigrate  = "hostpath-provisioner.kubevirt.io/migrate"
	annPolicy   = "hostpath-provisioner.kubevirt.io/reclaim-policy"
	finalizer   = "external-provisioner.volume.kubernetes.io/finalizer"
)

// bothModes is an agent with one pool for both kinds of claims, which migrates as the mode says.
func bothModes(mode string, flags ...string) harness.Options {
	return harness.Options{CSI: "hostpath,csi", Env: []string{"MIGRATE_TO_CSI=" + mode}, Flags: flags}
}

// migrating is a node whose kubelet knows the driver, and its agent, which migrates nothing yet.
func migrating(t *testing.T) (*harness.Scene, *harness.Agent) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	s.KnowsDriver(node)
	return s, s.Agent(node, bothModes("off"))
}

// hosted is a bound hostPath volume with data in it.
type hosted struct {
	*harness.Scene
	a     *harness.Agent
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume // as it was first
	inode uint64
}

func newHosted(s *harness.Scene, a *harness.Agent) *hosted {
	s.Helper()
	return hostedFor(s, a, s.Create(harness.Claim{Node: a.Node.Name}))
}

// hostedFor is the volume of a claim that the agent serves.
func hostedFor(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) *hosted {
	s.Helper()
	h := &hosted{Scene: s, a: a, claim: claim, pv: s.Bound(claim)}
	h.Write(h.pv.Spec.HostPath.Path, "data", []byte("precious"))
	recorded(s, a.Pool, claim)
	h.inode = h.find()
	return h
}

// find returns the directory's inode; the data must be in it.
func (h *hosted) find() uint64 {
	h.Helper()
	path := h.pv.Spec.HostPath.Path
	if data, err := os.ReadFile(filepath.Join(path, "data")); err != nil || string(data) != "precious" {
		h.Fatalf("the data is %q, %v", data, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		h.Fatal(err)
	}
	return st.Ino
}

// isCSI returns nil where the migration is over.
func (h *hosted) isCSI() error {
	if err := h.isOver(); err != nil {
		return err
	}
	pv, err := h.now()
	if err != nil {
		return err
	}
	switch c := pv.Spec.CSI; {
	case pv.UID == h.pv.UID || c == nil:
		return fmt.Errorf("PV %s is still the one it was", pv.Name)
	case c.Driver != harness.Driver || c.VolumeHandle != filepath.Base(h.pv.Spec.HostPath.Path) || c.FSType != "" ||
		len(c.VolumeAttributes) != 1 || c.VolumeAttributes[harness.StoragePool] != "legacy":
		return fmt.Errorf("source %+v", c)
	case pv.Annotations[annReplaces] == "" || pv.Annotations[harness.AnnProvisionedBy] != harness.Driver ||
		pv.Annotations["hostPathProvisionerIdentity"] != "" || pv.Annotations[harness.AnnProvisionOnNode] != "":
		return fmt.Errorf("annotations %v", pv.Annotations)
	}
	v := h.a.Volume(filepath.Base(h.pv.Spec.HostPath.Path))
	if m := v.Migration; m == nil || m.Step != "done" || m.To != "csi" || m.Stopped != "" || v.State != "bound" {
		return fmt.Errorf("record %+v, migration %+v", v, m)
	}
	return nil
}

// isBack returns nil where the volume has a hostPath PV again, and the way there is over.
func (h *hosted) isBack() error {
	pv, err := h.now()
	if err != nil {
		return err
	}
	if pv.UID == h.pv.UID || pv.Spec.HostPath == nil || pv.Spec.HostPath.Path != h.pv.Spec.HostPath.Path {
		return fmt.Errorf("PV %s, source %+v", pv.UID, pv.Spec.PersistentVolumeSource)
	}
	if m := h.a.Volume(filepath.Base(h.pv.Spec.HostPath.Path)).Migration; m != nil {
		return fmt.Errorf("journal %+v", m)
	}
	return h.isOver()
}

// now is the PV as it is; there is none for a moment.
func (h *hosted) now() (*corev1.PersistentVolume, error) {
	return h.Client.CoreV1().PersistentVolumes().Get(h.Context(), h.pv.Name, metav1.GetOptions{})
}

// isOver returns nil where PV and claim are bound to each other, with all that the first PV had.
func (h *hosted) isOver() error {
	if err := h.IsBound(h.claim); err != nil {
		return err
	}
	pv, err := h.now()
	if err != nil {
		return err
	}
	switch {
	case pv.Status.Phase != corev1.VolumeBound || pv.Spec.ClaimRef.UID != h.claim.UID:
		return fmt.Errorf("PV %s is %s", pv.Name, pv.Status.Phase)
	case pv.Spec.PersistentVolumeReclaimPolicy != h.pv.Spec.PersistentVolumeReclaimPolicy || pv.Annotations[annPolicy] != "":
		return fmt.Errorf("policy %s, annotations %v", pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
	case !slices.Contains(pv.Finalizers, finalizer):
		return fmt.Errorf("finalizers %v", pv.Finalizers)
	}
	return nil
}

// said returns nil where the claim has an event of each reason, and no warning of ours.
func (h *hosted) said(reasons ...string) error {
	for _, r := range reasons {
		if !slices.ContainsFunc(h.Events(h.claim.UID), func(e harness.Event) bool { return e.Reason == r }) {
			return fmt.Errorf("no event %s: %v", r, h.Events(h.claim.UID))
		}
	}
	return h.Unwarned(h.claim.UID)
}

// The whole way: the claim's volume gets a CSI PV, grows and goes as any other, without a byte
// moved.
func TestMigrate(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	first, second := newHosted(s, a), newHosted(s, a)
	a.Stop()
	a.RestartAs(bothModes("run"))
	for _, h := range []*hosted{first, second} {
		s.Eventually("migrated", h.isCSI)
		if got := h.find(); got != h.inode {
			t.Errorf("inode %d, was %d", got, h.inode)
		}
		h.Eventually("events", func() error { return h.said(reasonMigrating, reasonMigrated) })
		if err := firstError(s.Unwarned(h.pv.UID), s.Unwarned(s.PV(h.pv.Name).UID)); err != nil {
			t.Error(err)
		}
	}
	s.Eventually("metrics", func() error {
		return firstError(a.MetricIs(2, "kubevirt_hpp_migration_volumes", `verdict="migrated"`),
			a.MetricIs(2*10<<20, "kubevirt_hpp_pool_allocated_bytes"))
	})
	ask(s, first.claim, "20Mi")
	s.Eventually("growth", func() error { return hasSize(s, a, first.claim, "20Mi") })
	s.Delete(second.claim)
	s.Gone(second.pv.Name)
	s.Eventually("directory gone", func() error { return harness.Missing(second.pv.Spec.HostPath.Path) })
	first.find()
}

// The way back gives the claim the very PV that it had, but for what became of it meanwhile.
func TestMigrateBack(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	h := newHosted(s, a)
	a.Stop()
	a.RestartAs(bothModes("run"))
	s.Eventually("migrated", h.isCSI)
	ask(s, h.claim, "20Mi")
	s.Eventually("growth", func() error { return hasSize(s, a, h.claim, "20Mi") })
	s.PatchPV(h.pv.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"back"}}}`, annMigrate))
	s.Eventually("hostPath again", h.isBack)
	pv := s.PV(h.pv.Name)
	for _, key := range []string{harness.AnnProvisionedBy, "hostPathProvisionerIdentity", harness.AnnProvisionOnNode} {
		if pv.Annotations[key] != h.pv.Annotations[key] {
			t.Errorf("annotation %s is %q, was %q", key, pv.Annotations[key], h.pv.Annotations[key])
		}
	}
	s.Eventually("size", func() error { return hasSize(s, a, h.claim, "20Mi") })
	s.Checked(a) // the check that made the PV is over
	s.Checked(a) // and the next one
	s.Once("the annotation holds", func() error {
		if uid := s.PV(h.pv.Name).UID; uid != pv.UID {
			return fmt.Errorf("PV %s, was %s", uid, pv.UID)
		}
		return nil
	})
	s.Delete(h.claim)
	s.Gone(h.pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// A plan changes nothing.
func TestMigratePlan(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	h := newHosted(s, a)
	a.Stop()
	a.RestartAs(bothModes("plan"))
	a.AwaitReady()
	s.Eventually("plan", func() error { return a.MetricIs(1, "kubevirt_hpp_migration_volumes", `verdict="ready"`) })
	s.Checked(a)
	s.Once("nothing is changed", func() error {
		if pv := s.PV(h.pv.Name); pv.UID != h.pv.UID || pv.Spec.PersistentVolumeReclaimPolicy != "Delete" {
			return fmt.Errorf("PV %+v", pv)
		}
		return nil
	})
	if m := a.Volume(h.pv.Name).Migration; m != nil {
		t.Errorf("journal %+v", m)
	}
}
