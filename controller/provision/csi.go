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
