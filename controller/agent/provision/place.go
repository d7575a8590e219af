package provision

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// place is where the volume of a claim is, or goes.
type place struct {
	pool *volume.Pool
	spec volume.Spec // with the name of the directory
	made bool        // the volume exists already
}

// placeOf returns the place of a claim's volume. One that exists is used where it is: the pools of
// the class may have changed since the volume was made, and a pool that is not ready then does not
// count. A new volume goes into the pool of the class that has the most available space. The
// refusal is that of a node without such a pool. The caller has checked the class.
func (c *Controller) placeOf(b *backends.Backend, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) (place, *refusal) {
	at := place{spec: specOf(claim, sc)}
	candidates := b.PoolsFor(sc)
	if pool, v := existing(b, slices.Concat(candidates, b.Pools), claim, sc); pool != nil {
		at.pool, at.spec.Name, at.made = pool, v.Name, true
		return at, nil
	}
	at.spec.Name = b.Directory(claim, sc)
	if at.pool = mostAvailable(candidates, at.spec); at.pool == nil {
		return at, &refusal{reason: refusedNoPool, temporary: true, message: fmt.Sprintf(
			"node %s has %s", c.Info.Name(), b.Missing(sc))}
	}
	if why := at.pool.NotSelected(); why != "" {
		return at, &refusal{reason: refusedNoPool, temporary: true, message: fmt.Sprintf(
			"node %s does not serve this claim from pool %s: %s; choose another node, or label this one", c.Info.Name(),
			at.pool.Name(), why)}
	}
	return at, nil
}

func specOf(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) volume.Spec {
	p, _ := contract.ParametersOf(sc)
	p.Spec.Bytes = contract.Bytes(claim)
	p.Spec.Owner = record.Owner{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
	return p.Spec
}

// existing returns the claim's volume and its pool, the first of these that has it; nil if none
// has. The name is read from the record: an older setting, or the provisioner sidecar, may have
// chosen another.
func existing(b *backends.Backend, pools []*volume.Pool, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) (*volume.Pool, volume.Volume) {
	for i, pool := range pools {
		if slices.Contains(pools[:i], pool) {
			continue
		}
		v, err := pool.ByPV(contract.PVName(claim))
		if err != nil {
			v, err = pool.Get(b.Directory(claim, sc))
			if err == nil && v.Owner.UID != string(claim.UID) {
				continue
			}
		}
		if err == nil {
			return pool, v
		}
	}
	return nil, volume.Volume{}
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
		if pool.NotSelected() != "" {
			continue
		}
		space, err := pool.Space()
		if err == nil {
			err = pool.CheckQuota(spec)
		}
		if err == nil && space.Obtainable() > most {
			best, most = pool, space.Obtainable()
		}
	}
	return best
}
