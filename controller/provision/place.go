package provision

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// placeOf returns the pool and the directory of a claim's volume, and whether the volume
// exists already. A new volume goes into the pool of the class that has the most
// available space. The pool is nil if this node has none for the class.
func (c *Controller) placeOf(b *backend, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (pool *volume.Pool, directory string, made bool) {
	candidates := b.pools(sc)
	for _, pool := range candidates {
		if directory, made := existing(b, pool, claim, sc); made {
			return pool, directory, true
		}
	}
	return mostAvailable(candidates, specOf(claim, sc)), b.directory(claim, sc), false
}

// existing returns the directory of the claim's volume in the pool, if there is one. The
// name is read from the record: an older setting, or the provisioner sidecar, may have
// chosen another.
func existing(b *backend, pool *volume.Pool, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (directory string, made bool) {
	if v, err := pool.ByPV(class.PVName(claim)); err == nil {
		return v.Name, true
	}
	v, err := pool.Get(b.directory(claim, sc))
	return v.Name, err == nil && v.Owner.UID == string(claim.UID)
}

// mostAvailable returns the pool with the most available space of those that can serve the
// specification, the first of equals. If none can, it returns the first pool, whose refusal
// then answers the claim; nil if there is no pool.
func mostAvailable(pools []*volume.Pool, spec volume.Spec) *volume.Pool {
	if len(pools) == 0 {
		return nil
	}
	best, most := pools[0], int64(-1)
	if len(pools) == 1 {
		return best
	}
	for _, pool := range pools {
		space, err := pool.Space()
		if err == nil {
			err = pool.CheckQuota(spec)
		}
		if err == nil && space.Available > most {
			best, most = pool, space.Available
		}
	}
	return best
}
