package pvs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestValidateCSI(t *testing.T) {
	c := newPVs(t)
	for className, want := range map[string]string{"csi": "legacy", "csi-fast": "fast"} {
		pv := validPV(c, className)
		pool, name, err := c.backendOf(pv).validate(pv)
		if err != nil || name != pv.Name || pool.Name() != want {
			t.Fatalf("the agent's PV of %s: %v, %q, %v", className, pool, name, err)
		}
	}
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolume)
		want  string // in the error; empty means fine
	}{
		"no CSI source":  {func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil }, "no volume of the CSI driver"},
		"another driver": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "example.com" }, "no volume of the CSI driver"},
		"another provisioner": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionedBy] = contract.HostPathProvisioner
		}, "provisioned-by"},
		"no provisioner": {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnProvisionedBy) }, ""},
		"no affinity":    {func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, "affinity"},
		"another node":   {func(pv *corev1.PersistentVolume) { affinityValues(pv)[0] = "node-02" }, "affinity"},
		"the hostname":   {func(pv *corev1.PersistentVolume) { affinityValues(pv)[0] = "host-a" }, "affinity"},
		"another key": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = corev1.LabelHostname
		}, contract.TopologyNode},
		"two nodes": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-01", "node-02"}
		}, "affinity"},
		"a pool that is not here":  {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes[contract.StoragePool] = "slow" }, `"slow"`},
		"no attributes":            {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes = nil }, ""},
		"another pool's UUID":      {func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPool] = "6e0c" }, "6e0c"},
		"the UUID of the other":    {func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPool] = c.Pools.All()[1].ID() }, "and the pool in"},
		"no UUID":                  {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnPool) }, ""},
		"a handle that leaves":     {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "../x" }, "handle"},
		"the private directory":    {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = ".hostpath-provisioner" }, "dot"},
		"no handle":                {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }, "empty"},
		"attributes of other uses": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes["x"] = "y" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pv := validPV(c, "csi")
			row.spoil(pv)
			_, name, err := c.backendNamed(contract.CSIProvisioner).validate(pv)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %q, %v; want an error with %q", name, err, row.want)
			}
		})
	}
}

// handmade returns a CSI PV that an administrator wrote.
func handmade(t *testing.T, c *PVs) *corev1.PersistentVolume {
	t.Helper()
	pv := validPV(c, "csi")
	pv.Name, pv.UID, pv.Spec.ClaimRef = "my-data", "pv-uid", nil
	pv.Spec.CSI.VolumeHandle = "backup.2024"
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	delete(pv.Annotations, contract.AnnProvisionedBy)
	return pv
}

func TestAdoptableCSI(t *testing.T) {
	c := newPVs(t)
	pool := c.Pools.All()[0]
	s := c.backendNamed(contract.CSIProvisioner)
	annotated, plain := handmade(t, c), handmade(t, c)
	delete(plain.Annotations, contract.AnnPool)
	if err := s.Adoptable(annotated, pool, "backup.2024"); err != nil {
		t.Error(err)
	}
	err := s.Adoptable(plain, pool, "backup.2024")
	if err == nil || !strings.Contains(err.Error(), "kubectl annotate pv my-data hostpath-provisioner.kubevirt.io/pool="+pool.ID()) {
		t.Errorf("the error names no command: %v", err)
	}
	older := validPV(c, "csi")
	older.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("251Gi")}
	delete(older.Annotations, contract.AnnPool)
	for directory, want := range map[string]bool{
		older.Name: true, older.Spec.ClaimRef.Name + "-" + older.Name: true, "backup.2024": false,
	} {
		if got := s.Adoptable(older, pool, directory) == nil; got != want {
			t.Errorf("an older driver's PV adopts %q: %v", directory, got)
		}
	}
	hostPath := validPV(c, "wait")
	if c.backendOf(hostPath).Adoptable(hostPath, pool, "backup.2024") == nil {
		t.Error("a hostPath PV with the pool's UUID adopts any directory")
	}
}

// TestHandmade adopts a PV that an administrator wrote, without a claim. A claim is bound
// later. The volume is never deleted.
func TestHandmade(t *testing.T) {
	c := newPVs(t)
	pool := c.Pools.All()[0]
	pv := handmade(t, c)
	data := filepath.Join(pool.Path(), pv.Spec.CSI.VolumeHandle, "data")
	if err := os.MkdirAll(data, 0o777); err != nil {
		t.Fatal(err)
	}
	sync := func(pv *corev1.PersistentVolume) volume.Volume {
		t.Helper()
		if err := c.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
		if err := c.sync(t.Context(), pv.Name); err != nil {
			t.Fatal(err)
		}
		v, err := pool.Get(pv.Spec.CSI.VolumeHandle)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := sync(pv); !v.Adopted || v.State != record.Bound || v.Bytes != 3<<30 || v.PV != pv.Name || v.Owner.UID != "" || v.Cluster != "c" {
		t.Errorf("adopted as %+v", v)
	}
	bound := pv.DeepCopy()
	bound.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: testUID}
	bound.Status.Phase = corev1.VolumeBound
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: testUID}}
	claim.Spec.VolumeName = bound.Name
	setObjects(t, c, claim)
	if v := sync(bound); v.PVUID != "pv-uid" || v.Owner != (record.Owner{Namespace: "default", Name: "data", UID: testUID}) || v.Bytes != 3<<30 {
		t.Errorf("bound to %v with %d bytes", v.Owner, v.Bytes)
	}
	bound.Status.Phase, bound.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
	setObjects(t, c, bound)
	if c.Deletable(bound) == nil || c.Delete(t.Context(), bound) == nil {
		t.Error("a PV that no provisioner made is deleted")
	}
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	annotated := bound.DeepCopy()
	annotated.Annotations[contract.AnnProvisionedBy] = contract.CSIProvisioner
	setObjects(t, c, annotated)
	if c.Deletable(annotated) != nil || c.Delete(t.Context(), annotated) != nil {
		t.Error("with the annotation it is not deleted")
	}
}

// A PV that is deleted and waits for the finalizer says who removes it, and one without it is gone in a
// moment.
func TestUndeletableIsTold(t *testing.T) {
	for _, finalizers := range [][]string{nil, {"kubernetes.io/pv-protection"}, {contract.Finalizer}} {
		for _, deleted := range []bool{false, true} {
			l := newLife(t, "csi")
			delete(l.pv.Annotations, contract.AnnProvisionedBy) // by a webhook
			l.released()
			if l.pv.Finalizers = finalizers; deleted {
				l.pv.DeletionTimestamp = ptr.To(metav1.Now())
			}
			told := slices.ContainsFunc(l.see(), func(event string) bool {
				return strings.HasPrefix(event, events.VolumeFailedDelete+": ") && strings.Contains(event, "kubectl annotate pv ")
			})
			if want := !deleted || slices.Contains(finalizers, contract.Finalizer); told != want {
				t.Errorf("finalizers %q, deleted %v: told: %v", finalizers, deleted, told)
			}
		}
	}
}

func TestDeletableByProvisioner(t *testing.T) {
	c := newPVs(t)
	pv := handmade(t, c)
	err := c.backendOf(pv).Deletable(pv)
	if err == nil || !strings.Contains(err.Error(), "kubectl annotate pv my-data pv.kubernetes.io/provisioned-by="+contract.CSIProvisioner) {
		t.Error(err)
	}
	for _, className := range []string{"wait", "csi"} {
		pv := validPV(c, className)
		if err := c.backendOf(pv).Deletable(pv); err != nil {
			t.Errorf("%s: %v", className, err)
		}
	}
}
