package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// otherProvisioner is one whose volumes can be taken over, with the PV that it makes of a claim.
type otherProvisioner struct {
	name      string
	directory func(claim *corev1.PersistentVolumeClaim) string
	dress     func(pv *corev1.PersistentVolume, path string, node harness.Node)
}

func hostnameAffinity(node harness.Node) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Hostname},
		}},
	}}}}
}

var otherProvisioners = []otherProvisioner{
	{
		"hostpath",
		func(c *corev1.PersistentVolumeClaim) string {
			return c.Namespace + "-" + c.Name + "-" + harness.PVName(c)
		},
		func(pv *corev1.PersistentVolume, path string, node harness.Node) {
			pv.Annotations["hostPathProvisionerIdentity"] = node.Name
			pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
		},
	},
	{
		"rancher.io/local-path",
		func(c *corev1.PersistentVolumeClaim) string {
			return harness.PVName(c) + "_" + c.Namespace + "_" + c.Name
		},
		func(pv *corev1.PersistentVolume, path string, node harness.Node) {
			pv.Annotations["local.path.provisioner/selected-node"] = node.Name
			create := corev1.HostPathDirectoryOrCreate
			pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path, Type: &create}
			pv.Spec.NodeAffinity = hostnameAffinity(node)
		},
	},
	{
		"rancher.io/local-path",
		func(c *corev1.PersistentVolumeClaim) string {
			return harness.PVName(c) + "_" + c.Namespace + "_" + c.Name
		},
		func(pv *corev1.PersistentVolume, path string, node harness.Node) {
			pv.Spec.Local = &corev1.LocalVolumeSource{Path: path}
			pv.Spec.NodeAffinity = hostnameAffinity(node)
		},
	},
	{
		"rancher.io/local-path", // before v0.0.13
		harness.PVName,
		func(pv *corev1.PersistentVolume, path string, node harness.Node) {
			create := corev1.HostPathDirectoryOrCreate
			pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path, Type: &create}
			pv.Spec.NodeAffinity = hostnameAffinity(node)
		},
	},
}

// theirs is a bound volume of another provisioner, which does not run.
type theirs struct {
	*harness.Scene
	a     *harness.Agent
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume // as it was first
	path  string
}

func newTheirs(s *harness.Scene, a *harness.Agent, p otherProvisioner) *theirs {
	s.Helper()
	sc := s.Class(fmt.Sprintf("theirs-%d", time.Now().UnixNano()), func(c *storagev1.StorageClass) { c.Provisioner = p.name })
	claim := s.Create(harness.Claim{Class: sc})
	path := filepath.Join(a.Pool, p.directory(claim))
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: harness.PVName(claim), Annotations: map[string]string{harness.AnnProvisionedBy: p.name},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: sc,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
		},
	}
	p.dress(pv, path, a.Node)
	s.Write(path, "data", []byte("precious"))
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	return &theirs{Scene: s, a: a, claim: claim, pv: s.Bound(claim), path: path}
}

// isBound returns nil where claim and PV are bound to each other, with the policy that the first PV
// had.
func (h *theirs) isBound() (*corev1.PersistentVolume, error) {
	if err := h.IsBound(h.claim); err != nil {
		return nil, err
	}
	pv, err := h.Client.CoreV1().PersistentVolumes().Get(h.Context(), h.pv.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case pv.Status.Phase != corev1.VolumeBound || pv.Spec.ClaimRef.UID != h.claim.UID || pv.Annotations[annPolicy] != "" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return nil, fmt.Errorf("PV %s is %s, policy %s, annotations %v", pv.Name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
	}
	return pv, nil
}

// isOurs returns nil where the volume has a CSI PV of ours.
func (h *theirs) isOurs() error {
	pv, err := h.isBound()
	if err != nil {
		return err
	}
	c := pv.Spec.CSI
	if c == nil || c.Driver != harness.Driver || c.VolumeHandle != filepath.Base(h.path) || pv.Annotations[annReplaces] != string(h.pv.UID) ||
		pv.Annotations[harness.AnnProvisionedBy] != harness.Driver || pv.Annotations["hostPathProvisionerIdentity"] != "" ||
		!slices.Contains(pv.Finalizers, finalizer) {
		return fmt.Errorf("source %+v, annotations %v, finalizers %v", pv.Spec.PersistentVolumeSource, pv.Annotations, pv.Finalizers)
	}
	v := h.a.Volume(filepath.Base(h.path))
	if m := v.Migration; m == nil || m.Step != "done" || !v.Adopted || v.State != "bound" || v.Bytes != 10<<20 || v.Owner.UID != string(h.claim.UID) {
		return fmt.Errorf("record %+v, migration %+v", v, m)
	}
	return nil
}

// isTheirs returns nil where the volume is the other provisioner's again, and nothing of it is
// ours.
func (h *theirs) isTheirs() error {
	pv, err := h.isBound()
	if err != nil {
		return err
	}
	want := h.pv.Spec.PersistentVolumeSource
	switch {
	case want.HostPath != nil && (pv.Spec.HostPath == nil || pv.Spec.HostPath.Path != h.path || *pv.Spec.HostPath.Type != *want.HostPath.Type),
		want.Local != nil && (pv.Spec.Local == nil || pv.Spec.Local.Path != h.path):
		return fmt.Errorf("source %+v", pv.Spec.PersistentVolumeSource)
	case pv.Labels[harness.LabelNode] != "" || pv.Annotations[harness.AnnPool] != "" || slices.Contains(pv.Finalizers, finalizer):
		return fmt.Errorf("labels %v, annotations %v, finalizers %v", pv.Labels, pv.Annotations, pv.Finalizers)
	case (pv.Spec.NodeAffinity == nil) != (h.pv.Spec.NodeAffinity == nil):
		return fmt.Errorf("node affinity %+v", pv.Spec.NodeAffinity)
	}
	for key, value := range h.pv.Annotations {
		if pv.Annotations[key] != value {
			return fmt.Errorf("annotation %s is %q, was %q", key, pv.Annotations[key], value)
		}
	}
	if n := len(h.a.Inspect().Volumes); n != 0 {
		return fmt.Errorf("there are %d records", n)
	}
	return h.a.MetricIs(0, "kubevirt_hpp_pool_allocated_bytes")
}

// find returns the directory's inode; the data must be in it.
func (h *theirs) find() uint64 {
	h.Helper()
	return (&hosted{Scene: h.Scene, pv: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: h.path}},
	}}}).find()
}

// restarted is the agent with another mode.
func (h *theirs) restarted(mode string, flags ...string) {
	h.Helper()
	h.a.Stop()
	h.a.RestartAs(bothModes(mode, flags...))
	h.a.AwaitReady()
}

const fromOthers = "--migrate-from=hostpath,rancher.io/local-path"

// Volumes of other provisioners get CSI PVs where they are: nothing happens without the flag nor by
// a plan, the way back leads to the very PV, and what is taken over goes as any other.
func TestMigrateOthers(t *testing.T) {
	t.Parallel()
	for i, p := range otherProvisioners {
		t.Run(fmt.Sprintf("%d-%s", i, filepath.Base(p.name)), func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newTheirs(s, a, p)
			inode := h.find()
			planned(h)
			for range 2 {
				h.restarted("run", fromOthers)
				s.Eventually("taken over", h.isOurs)
				h.restarted("back")
				s.Eventually("given back", h.isTheirs)
				h.pv.UID = s.PV(h.pv.Name).UID
			}
			h.restarted("run", fromOthers)
			s.Eventually("taken over for good", h.isOurs)
			if got := h.find(); got != inode {
				t.Errorf("inode %d, was %d", got, inode)
			}
			if err := firstError(s.Unwarned(h.claim.UID), s.Unwarned(s.PV(h.pv.Name).UID)); err != nil {
				t.Error(err)
			}
			s.Delete(h.claim)
			s.Gone(h.pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// planned sees that nobody writes anything before it is told to.
func planned(h *theirs) {
	h.Helper()
	untouched := func() error {
		if pv := h.PV(h.pv.Name); pv.ResourceVersion != h.pv.ResourceVersion {
			return fmt.Errorf("somebody wrote PV %+v", pv)
		}
		return h.a.MetricIs(0, "kubevirt_hpp_pool_allocated_bytes")
	}
	h.restarted("run")
	h.Checked(h.a)
	h.Once("not asked for", func() error {
		return firstError(untouched(), h.a.MetricIs(0, "kubevirt_hpp_migration_volumes", `verdict="ready"`))
	})
	h.restarted("plan", fromOthers)
	h.Eventually("plan", func() error { return h.a.MetricIs(1, "kubevirt_hpp_migration_volumes", `verdict="ready"`) })
	h.Checked(h.a)
	h.Once("a plan changes nothing", untouched)
}
