package provision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// csiShape is the shape of the CSI driver's name: the class names the pool,
// and PVs name the pool and the directory. What it makes and records is what
// CreateVolume of controller/csi does, so that either finds the other's.
type csiShape struct {
	*Controller
	driver string
}

func (s *csiShape) provisioner() string { return s.driver }

func (s *csiShape) rule() claims.Rule { return claims.PlaceCSI }

func (s *csiShape) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := class.CheckSupported(claim, class.CSIModes); err != nil {
		return err
	}
	if _, err := class.ParametersOf(sc); err != nil {
		return err
	}
	// The driver would refuse to mount the volume.
	if _, err := mount.ParseFlags(sc.MountOptions, false); err != nil {
		return fmt.Errorf("class %q: %w; a class cannot be edited: delete it and create it again", sc.Name, err)
	}
	return nil
}

func (s *csiShape) pool(sc *storagev1.StorageClass) *volume.Pool {
	return s.pools.Named(class.PoolName(sc.Parameters))
}

// givesBack: whatever keeps this node from holding the volume may not be so on
// another. Where another agent of this node has the pool, that one answers.
func (s *csiShape) givesBack(_ *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.forNow && !r.silent && class.Delayed(sc)
}

func (s *csiShape) ignored(claim *corev1.PersistentVolumeClaim) string {
	if !class.NamesNode(claim) {
		return ""
	}
	return fmt.Sprintf("the annotation %s is ignored: the scheduler chooses the node of a volume of class %q; "+
		"to choose it yourself, say in the pod where it may run (spec.nodeSelector), or use a class of provisioner %s",
		class.AnnProvisionOnNode, class.Of(claim), class.HostPathProvisioner)
}

func (s *csiShape) directory(pv string, _ *corev1.PersistentVolumeClaim) string { return pv }

func (s *csiShape) newPV(o lib.ProvisionOptions, pool *volume.Pool, v volume.Volume) *corev1.PersistentVolume {
	return class.CSIPV(o.PVName, v.Name, pool.Name(), o.PVC, o.StorageClass, s.here(pool), s.policyOf(o.StorageClass))
}

func (s *csiShape) ofThisNode(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == s.driver && class.TopologyOf(pv) == s.node
}

func (s *csiShape) names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if !s.ofThisNode(pv) {
		return nil, ""
	}
	return s.pools.Named(class.PoolName(pv.Spec.CSI.VolumeAttributes)), pv.Spec.CSI.VolumeHandle
}

func (s *csiShape) examine(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	source := pv.Spec.CSI
	if source == nil || source.Driver != s.driver {
		return nil, "", fmt.Errorf("it names our provisioner but has no volume of the CSI driver %s", s.driver)
	}
	// One that an administrator made has no such annotation.
	if by := pv.Annotations[class.AnnProvisionedBy]; by != "" && by != s.driver {
		return nil, "", fmt.Errorf("annotation %s is %q, not %q", class.AnnProvisionedBy, by, s.driver)
	}
	if class.TopologyOf(pv) != s.node {
		return nil, "", fmt.Errorf("its node affinity is not just %s=%s", class.TopologyNode, s.node)
	}
	name := class.PoolName(source.VolumeAttributes)
	pool := s.pools.Named(name)
	if pool == nil {
		return nil, "", fmt.Errorf("its volume attribute %s names the pool %q, and this node has %q", class.StoragePool, name, s.pools.Names())
	}
	if err := checkPool(pv, pool); err != nil {
		return nil, "", err
	}
	if err := volume.CheckName(source.VolumeHandle); err != nil {
		return nil, "", fmt.Errorf("its volume handle: %w", err)
	}
	return pool, source.VolumeHandle, nil
}

// matches: the sidecar tells the driver a volume's PV only where it was told
// to, so the record may not have it. The handle is the volume's all the same.
func (s *csiShape) matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.PV == "" {
		v.PV = pv.Name
	}
	return matches(v, pv)
}

// adoptable: who puts the pool's UUID on a PV has looked at the pool, which an
// older provisioner did not have to.
func (s *csiShape) adoptable(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	if pv.Annotations[class.AnnPool] == pool.ID() {
		return nil
	}
	if err := namedAfterClaim(pv, directory); err != nil {
		return fmt.Errorf("%w; if directory %q of pool %s is really this PV's, say so with the pool's UUID: "+
			"kubectl annotate pv %s %s=%s", err, directory, pool.Path(), pv.Name, class.AnnPool, pool.ID())
	}
	return nil
}

// labels: a PV of our driver and this node is nobody else's, and once it is
// watched an annotation that was missing is seen at once.
func (s *csiShape) labels(*corev1.PersistentVolume, *volume.Pool, string) error { return nil }

// unclaimed: a PV with the pool's UUID is one of ours, or of an administrator
// who saw the pool. An older driver wrote the whole disk's capacity.
func (s *csiShape) unclaimed(pv *corev1.PersistentVolume) int64 {
	if pv.Annotations[class.AnnPool] == "" {
		return 0
	}
	return pv.Spec.Capacity.Storage().Value()
}

// deletes: the library asks for the deletion of any CSI PV of the driver, also
// of one that an administrator made.
func (s *csiShape) deletes(pv *corev1.PersistentVolume) error {
	if pv.Annotations[class.AnnProvisionedBy] == s.driver {
		return nil
	}
	return fmt.Errorf("no provisioner made this PV, so its volume is not deleted; to have it deleted, "+
		"kubectl annotate pv %s %s=%s; to keep it, set its reclaim policy to Retain", pv.Name, class.AnnProvisionedBy, s.driver)
}
