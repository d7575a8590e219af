package provision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// csiPools makes volumes in the pool that the class names, and PVs that name the
// pool and the directory. It makes and records the same as CreateVolume of
// controller/agent/csi, so that either finds the other's volumes.
type csiPools struct{ *volume.Pools }

func newCSIBackend(driver string, pools *volume.Pools) *backend {
	return &backend{volumes: csiPools{pools}, provisioner: driver}
}

func (c csiPools) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := contract.CheckSupported(claim, contract.CSIModes); err != nil {
		return err
	}
	if _, err := contract.ParametersOf(sc); err != nil {
		return err
	}
	// The driver would refuse to mount the volume.
	if _, err := mount.ParseFlags(sc.MountOptions, false); err != nil {
		return fmt.Errorf("class %q: %w; a class cannot be edited: delete it and create it again", sc.Name, err)
	}
	return nil
}

func (c csiPools) directory(claim *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) string {
	return contract.PVName(claim)
}

// pools returns the pool that the class names.
func (c csiPools) pools(sc *storagev1.StorageClass) []*volume.Pool {
	if pool := c.Named(contract.PoolName(sc.Parameters)); pool != nil {
		return []*volume.Pool{pool}
	}
	return nil
}

func (c csiPools) all() []*volume.Pool { return c.All() }

func (c csiPools) missing(sc *storagev1.StorageClass) string {
	return fmt.Sprintf("no pool %q, which class %q names; it has %q; use a class of one of these, or keep the pods off this node",
		contract.PoolName(sc.Parameters), sc.Name, c.Names())
}

// givesBack returns a claim that another node may be able to serve. If another agent
// of this node has the pool, that agent answers.
func (c csiPools) givesBack(_ *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.temporary && !r.silent && contract.Delayed(sc)
}

func (c csiPools) newPV(s served) *corev1.PersistentVolume {
	return contract.CSIPV(s.name, s.volume.Name, s.pool.Name(), s.claim, s.class, s.at, s.policy)
}
