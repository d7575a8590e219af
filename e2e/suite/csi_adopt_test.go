package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// plain is the driver of manifests/csi-sidecars: others serve the claims.
func plain(node harness.Node) harness.Options {
	return harness.Options{CSI: "none", DataDir: harness.Datadir(harness.LocalPool, node.Pool)}
}

// sidecarPV is the PV of a claim as the provisioner sidecar makes it.
func sidecarPV(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := handmadeCSI(s, a, claim.UID, claim.Name)
	pv.Labels = nil
	pv.Spec.CSI.VolumeAttributes["storage.kubernetes.io/csiProvisionerIdentity"] = "1700000000000-1234-" + harness.Driver
	return pv
}

// owned returns nil where the PV has label and pool, and its volume a record that names it and the
// claim.
func owned(s *harness.Scene, a *harness.Agent, pv, volume string, claim *corev1.PersistentVolumeClaim, adopted bool) error {
	s.Helper()
	now, r := s.PV(pv), a.Inspect()
	if now.Labels[harness.LabelNode] != a.Node.Name || now.Annotations[harness.AnnPool] != r.Pool.ID {
		return fmt.Errorf("labels %v, annotations %v", now.Labels, now.Annotations)
	}
	i := slices.IndexFunc(r.Volumes, func(v harness.ReportVolume) bool { return v.Name == volume })
	if i < 0 {
		return fmt.Errorf("no volume %q in %+v", volume, r.Volumes)
	}
	v := r.Volumes[i]
	if v.State != "bound" || v.PV != pv || v.Adopted != adopted || v.Bytes != 10<<20 ||
		v.Owner.UID != string(claim.UID) || v.Owner.Namespace != claim.Namespace || v.Owner.Name != claim.Name {
		return fmt.Errorf("record %+v, want bound, 10Mi, PV %s, claim %s", v, pv, claim.Name)
	}
	return nil
}

// What a provisioner sidecar asked the driver for is found and used, whatever the sidecar did not
// tell.
func TestCSISidecarsVolume(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Agent(node, plain(node))
	claim := s.Create(harness.Claim{Class: harness.ClassCSI})
	name := harness.PVName(claim)
	_, err := a.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 10 << 20},
		Parameters: map[string]string{
			harness.StoragePool: harness.LocalPool, // and neither the PV's name nor the claim's
		},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "xfs"}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	save(s, sidecarPV(s, a, claim))
	s.Bound(claim)
	if v := a.Volume(name); v.State != "ready" || v.PV != name {
		t.Fatalf("record %+v, want the PV after which the sidecar named the volume", v)
	}
	a.Stop()
	a.RestartAs(local(node))
	a.AwaitReady()
	s.Eventually("taken over", func() error { return owned(s, a, name, name, claim, false) })
	s.Delete(claim)
	s.Gone(name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// PVs of the driver before this one: no records, attributes that nobody knows, and the whole disk
// for a capacity.
func TestCSIOlderDriver(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Later(node, local(node))
	older := func(policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolumeClaim {
		claim := s.Create(harness.Claim{Class: harness.ClassCSI})
		pv := sidecarPV(s, a, claim)
		pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("251Gi")
		pv.Spec.CSI.FSType = ""
		pv.Spec.CSI.VolumeAttributes["csi.storage.k8s.io/pvc/name"] = claim.Name
		pv.Spec.PersistentVolumeReclaimPolicy = policy
		s.Write(filepath.Join(node.Pool, pv.Name), "data", []byte("precious"))
		save(s, pv)
		s.Bound(claim)
		return claim
	}
	deleted, retained := older(corev1.PersistentVolumeReclaimDelete), older(corev1.PersistentVolumeReclaimRetain)
	a.Restart()
	a.AwaitReady()
	for _, claim := range []*corev1.PersistentVolumeClaim{deleted, retained} {
		name := harness.PVName(claim)
		s.Eventually("adopted", func() error { return owned(s, a, name, name, claim, true) })
		if err := s.Unwarned(s.PV(name).UID); err != nil {
			t.Error(err)
		}
		s.Delete(claim)
	}
	s.Gone(harness.PVName(deleted))
	kept := harness.PVName(retained)
	s.Released(kept)
	s.Holds(a, "data kept", func() error { return harness.Exists(filepath.Join(node.Pool, kept, "data")) })
	s.Eventually("the other's gone", func() error {
		if got := s.Children(node.Pool); !slices.Equal(got, []string{kept}) {
			return fmt.Errorf("the pool holds %q", got)
		}
		return nil
	})
}

// An administrator makes a PV of a directory that is there. Nothing happens until he says which
// pool he means; nothing is deleted until he says that it may be.
func TestCSIHandmade(t *testing.T) {
	t.Parallel()
	s, a := csiNode(t)
	pool := a.Inspect().Pool.ID
	a.Stop()
	directory := filepath.Join(a.Pool, "old-data")
	s.Write(directory, "data", []byte("precious"))
	pv := handmadeCSI(s, a, uuid.NewUUID(), "")
	pv.Name, pv.Labels, pv.Annotations, pv.Spec.ClaimRef = s.Name+"-old", nil, nil, nil
	pv.Spec.CSI.VolumeHandle = "old-data"
	class := s.CSIClass("mine", nil) // claims of other tests would take it
	pv.Spec.StorageClassName = class
	pv = save(s, pv)
	a.Restart()
	a.AwaitReady()
	s.AwaitWarning(a, pv.UID, harness.ReasonRefused, a.Node.Name, "old-data", harness.AnnPool+"="+pool)
	if got := a.Inspect().Volumes; len(got) > 0 {
		t.Errorf("volumes %+v, want none", got)
	}

	s.PatchPV(pv.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, harness.AnnPool, pool))
	s.Eventually("adopted", func() error {
		if all := a.Inspect().Volumes; len(all) != 1 || all[0].PV != pv.Name || !all[0].Adopted || all[0].Bytes != 10<<20 || all[0].Owner.UID != "" {
			return fmt.Errorf("volumes %+v", all)
		}
		return nil
	})
	claim := s.Create(harness.Claim{Class: class, Edit: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = pv.Name }})
	s.Eventually("bound", func() error { return s.IsBound(claim) })
	s.Eventually("owner", func() error { return owned(s, a, pv.Name, "old-data", claim, true) })
	s.Delete(claim)
	s.Released(pv.Name)
	told := func() error {
		return onlyWarning(s, pv, harness.ReasonDelete, harness.AnnProvisionedBy+"="+harness.Driver, "Retain")
	}
	s.Eventually("event", told)
	s.Holds(a, "kept", func() error { return firstError(told(), harness.Exists(directory+"/data")) })
	s.PatchPV(pv.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, harness.AnnProvisionedBy, harness.Driver))
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// onlyWarning returns nil where the agents warned about the PV exactly once for that reason, in
// words that have these.
func onlyWarning(s *harness.Scene, pv *corev1.PersistentVolume, reason string, words ...string) error {
	s.Helper()
	var found []harness.Event
	for _, e := range s.Events(pv.UID) {
		if e.Reason == reason && e.Ours() {
			found = append(found, e)
		}
	}
	if len(found) != 1 || found[0].Count != 1 || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(found[0].Message, w) }) {
		return fmt.Errorf("events %s: %+v, want one that says %q", reason, found, words)
	}
	return nil
}

// Each row spoils one field of a PV whose directory is there, so the one spoilt thing is all that
// stands between the PV and the data.
func TestCSITamperedPVs(t *testing.T) {
	t.Parallel()
	s, a := csiNode(t)
	pool := a.Inspect().Pool.ID
	victim := csiBound(s, a)
	s.Write(filepath.Join(a.Pool, harness.PVName(victim)), "data", []byte("precious"))
	s.Write(a.Pool+"/unrelated", "data", []byte("precious"))
	s.Write(filepath.Dir(a.Pool)+"/outside", "data", []byte("precious"))
	handle := func(h string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = h }
	}
	pvs := map[string]*corev1.PersistentVolume{}
	for name, spoil := range map[string]func(*corev1.PersistentVolume){
		"another driver":          func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "csi.example.com" },
		"another provisioner":     annotated(harness.AnnProvisionedBy, "csi.example.com"),
		"the directory above":     handle(".."),
		"outside":                 handle("../outside"),
		"below a volume":          handle(harness.PVName(victim) + "/data"),
		"an absolute path":        handle(a.Pool + "/unrelated"),
		"the private directory":   handle(".hostpath-provisioner"),
		"another volume":          handle(harness.PVName(victim)),
		"a reserved name":         handle("snapshots"),
		"another node":            func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = topologyAffinity("node-of-others") },
		"no node":                 func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil },
		"another pool's identity": annotated(harness.AnnPool, "00000000-0000-4000-8000-000000000000"),
		"an unknown pool":         func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes[harness.StoragePool] = "fast" },
		"unrelated, no identity": func(pv *corev1.PersistentVolume) {
			handle("unrelated")(pv)
			delete(pv.Annotations, harness.AnnPool)
		},
		// Released, it would be a volume that is deleted already.
		"absent": func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.VolumeHandle, pv.Spec.ClaimRef = "absent", nil
			pv.Spec.StorageClassName = s.ClassName("nobodys") // claims of other tests would take it
		},
		"a path": sourced(corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(a.Pool, "unrelated")},
		}),
	} {
		pv := handmadeCSI(s, a, uuid.NewUUID(), "gone")
		pv.Annotations[harness.AnnPool] = pool
		s.Write(filepath.Join(a.Pool, pv.Name), "data", []byte("precious"))
		spoil(pv)
		pvs[name] = pv
	}
	recorded(s, a.Pool, victim)
	before := s.Tree(filepath.Dir(a.Pool))
	for name, pv := range pvs {
		made, err := env.Client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pvs[name] = made
	}
	said := func() error {
		for name, pv := range pvs {
			if err := s.Warned(pv.UID, harness.ReasonRefused, a.Node.Name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	s.Eventually("warnings", said)
	for _, pv := range pvs {
		if pv.Spec.ClaimRef != nil {
			s.Released(pv.Name)
		}
	}
	s.Holds(a, "PVs left alone", func() error {
		for name, pv := range pvs {
			if s.IsGone(pv.Name) == nil {
				return fmt.Errorf("%s: the PV is gone", name)
			}
		}
		return firstError(said(), a.Ready())
	})
	wantTreeBack(s, filepath.Dir(a.Pool), before)
	s.Delete(victim)
	s.Gone(harness.PVName(victim))
}
