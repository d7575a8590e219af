package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestExamineCSI(t *testing.T) {
	c := examiner(t)
	for className, want := range map[string]string{"csi": "legacy", "csi-fast": "fast"} {
		pv := goodPV(t, c, className)
		pool, name, err := c.pvs.backendOf(pv).validate(pv)
		if err != nil || name != pv.Name || pool.Name() != want {
			t.Fatalf("our own PV of %s: %v, %q, %v", className, pool, name, err)
		}
	}
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolume)
		want  string // in the error; empty means fine
	}{
		"no CSI source":       {func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil }, "no volume of the CSI driver"},
		"another driver":      {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "example.com" }, "no volume of the CSI driver"},
		"another provisioner": {func(pv *corev1.PersistentVolume) { pv.Annotations[class.AnnProvisionedBy] = class.HostPathProvisioner }, "provisioned-by"},
		"no provisioner":      {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, class.AnnProvisionedBy) }, ""},
		"no affinity":         {func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, "affinity"},
		"another node":        {func(pv *corev1.PersistentVolume) { value(pv)[0] = "node-02" }, "affinity"},
		"the hostname":        {func(pv *corev1.PersistentVolume) { value(pv)[0] = "host-a" }, "affinity"},
		"another key": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = corev1.LabelHostname
		}, class.TopologyNode},
		"two nodes": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-01", "node-02"}
		}, "affinity"},
		"a pool that is not here":  {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes[class.StoragePool] = "slow" }, `"slow"`},
		"no attributes":            {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes = nil }, ""},
		"another pool's UUID":      {func(pv *corev1.PersistentVolume) { pv.Annotations[class.AnnPool] = "6e0c" }, "6e0c"},
		"the UUID of the other":    {func(pv *corev1.PersistentVolume) { pv.Annotations[class.AnnPool] = c.pools.All()[1].ID() }, "and the pool in"},
		"no UUID":                  {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, class.AnnPool) }, ""},
		"a handle that leaves":     {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "../x" }, "handle"},
		"the private directory":    {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = ".hostpath-provisioner" }, "dot"},
		"no handle":                {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }, "empty"},
		"attributes of other uses": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes["x"] = "y" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pv := goodPV(t, c, "csi")
			row.spoil(pv)
			_, name, err := c.pvs.backendNamed(class.CSIProvisioner).validate(pv)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %q, %v; want an error with %q", name, err, row.want)
			}
		})
	}
}

// handmade spoils a PV of our own until it is one that an administrator wrote.
func handmade(t *testing.T, c *Controller) *corev1.PersistentVolume {
	t.Helper()
	pv := goodPV(t, c, "csi")
	pv.Name, pv.UID, pv.Spec.ClaimRef = "my-data", "pv-uid", nil
	pv.Spec.CSI.VolumeHandle = "backup.2024"
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	delete(pv.Annotations, class.AnnProvisionedBy)
	return pv
}

func TestAdoptableCSI(t *testing.T) {
	c := examiner(t)
	pool := c.pools.All()[0]
	s := c.pvs.backendNamed(class.CSIProvisioner)
	annotated, plain := handmade(t, c), handmade(t, c)
	delete(plain.Annotations, class.AnnPool)
	if err := s.adoptable(annotated, pool, "backup.2024"); err != nil {
		t.Error(err)
	}
	err := s.adoptable(plain, pool, "backup.2024")
	if err == nil || !strings.Contains(err.Error(), "kubectl annotate pv my-data hostpath-provisioner.kubevirt.io/pool="+pool.ID()) {
		t.Errorf("the words do not say how: %v", err)
	}
	older := goodPV(t, c, "csi")
	older.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("251Gi")}
	delete(older.Annotations, class.AnnPool)
	for directory, want := range map[string]bool{
		older.Name: true, older.Spec.ClaimRef.Name + "-" + older.Name: true, "backup.2024": false,
	} {
		if got := s.adoptable(older, pool, directory) == nil; got != want {
			t.Errorf("an older driver's PV adopts %q: %v", directory, got)
		}
	}
	hostPath := goodPV(t, c, "wait")
	if c.pvs.backendOf(hostPath).adoptable(hostPath, pool, "backup.2024") == nil {
		t.Error("a hostPath PV with the pool's UUID adopts any directory")
	}
	for what, row := range map[string]struct {
		pv   *corev1.PersistentVolume
		want int64
	}{"by hand": {annotated, 3 << 30}, "an older driver's": {older, 0}, "hostPath": {hostPath, 0}} {
		if got := c.pvs.backendOf(row.pv).unclaimed(row.pv); got != row.want {
			t.Errorf("%s is promised %d, want %d", what, got, row.want)
		}
	}
}

// A PV that an administrator made is adopted without a claim, learns its claim
// later, and is never deleted.
func TestHandmade(t *testing.T) {
	c := examiner(t)
	pool := c.pools.All()[0]
	pv := handmade(t, c)
	data := filepath.Join(pool.Path(), pv.Spec.CSI.VolumeHandle, "data")
	if err := os.MkdirAll(data, 0o777); err != nil {
		t.Fatal(err)
	}
	sync := func(pv *corev1.PersistentVolume) volume.Volume {
		t.Helper()
		if err := c.pvs.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
		if err := c.pvs.sync(t.Context(), pv.Name); err != nil {
			t.Fatal(err)
		}
		v, err := pool.Get(pv.Spec.CSI.VolumeHandle)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := sync(pv); !v.Adopted || v.State != volume.Bound || v.Bytes != 3<<30 || v.PV != pv.Name || v.Owner.UID != "" || v.Cluster != "c" {
		t.Errorf("adopted as %+v", v)
	}
	bound := pv.DeepCopy()
	bound.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: testUID}
	if v := sync(bound); v.Owner != (volume.Owner{Namespace: "default", Name: "data", UID: testUID}) || v.Bytes != 3<<30 {
		t.Errorf("bound to %v with %d bytes", v.Owner, v.Bytes)
	}
	if c.ShouldDelete(t.Context(), bound) || c.Delete(t.Context(), bound) == nil {
		t.Error("a PV that no provisioner made is deleted")
	}
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	ours := bound.DeepCopy()
	ours.Annotations[class.AnnProvisionedBy] = class.CSIProvisioner
	if !c.ShouldDelete(t.Context(), ours) || c.Delete(t.Context(), ours) != nil {
		t.Error("with the annotation it is not deleted")
	}
}

func TestDeletes(t *testing.T) {
	c := examiner(t)
	pv := handmade(t, c)
	err := c.pvs.backendOf(pv).deletable(pv)
	if err == nil || !strings.Contains(err.Error(), "kubectl annotate pv my-data pv.kubernetes.io/provisioned-by="+class.CSIProvisioner) {
		t.Error(err)
	}
	for _, className := range []string{"wait", "csi"} {
		pv := goodPV(t, c, className)
		if err := c.pvs.backendOf(pv).deletable(pv); err != nil {
			t.Errorf("%s: %v", className, err)
		}
	}
}

func TestCheck(t *testing.T) {
	c := examiner(t)
	block := corev1.PersistentVolumeBlock
	for what, row := range map[string]struct {
		claim         func(*corev1.PersistentVolumeClaim)
		class         func(*storagev1.StorageClass)
		hostPath, csi string // in the error; empty means offered
	}{
		"plain": {nil, nil, "", ""},
		"one pod": {func(p *corev1.PersistentVolumeClaim) {
			p.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}, nil, "use ReadWriteOnce", ""},
		"block":             {func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeMode = &block }, nil, "Filesystem", "Filesystem"},
		"unknown parameter": {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"pool": "x"} }, "", `"pool"`},
		"quota policy":      {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"quota": "x"} }, "best-effort", "best-effort"},
		"former quota":      {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"limit": "none"} }, "now named quota", "now named quota"},
		"inodes":            {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"inodes": "x"} }, "whole number", "whole number"},
		"quota":             {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"quota": "required"} }, "", ""},
		"mount option":      {nil, func(s *storagev1.StorageClass) { s.MountOptions = []string{"discard"} }, "without them", `"discard"`},
		"good mount option": {nil, func(s *storagev1.StorageClass) { s.MountOptions = []string{"noatime"} }, `"noatime"`, ""},
	} {
		for className, want := range map[string]string{"wait": row.hostPath, "csi": row.csi} {
			claim, sc := classtest.Claim(testUID, className, ""), classtest.Class(className)
			if row.claim != nil {
				row.claim(claim)
			}
			if row.class != nil {
				row.class(sc)
			}
			err := c.shapeNamed(sc.Provisioner).check(claim, sc)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v, want words %q", what, className, err, want)
			}
		}
	}
}
