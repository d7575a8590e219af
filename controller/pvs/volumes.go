package pvs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// VolumeOf returns the pool and the volume of a PV, for callers that change the volume. The
// error is an ErrNotReady if the pool is not ready; the PV is valid then, and the pool is
// returned. It is an ErrMigrating while the PV is being replaced.
func (p *PVs) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	pool, v, err := p.volumeOf(pv)
	if err == nil && v.Held() != nil {
		err = fmt.Errorf("PV %s: %w", pv.Name, v.Held())
	}
	return pool, v, err
}

// Validate returns the pool and the volume of a PV if the PV is valid and the volume's
// record names it. It also accepts PVs of other provisioners that may be migrated. Their
// volumes have no state before they are adopted.
//
// The error is an ErrNotReady if the pool is not ready; the PV is valid then, and the pool
// is returned.
func (p *PVs) Validate(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	if other := class.MadeBy(pv, p.otherProvisioners); other != nil {
		return p.validateOther(other, pv)
	}
	return p.volumeOf(pv)
}

func (p *PVs) volumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	b := p.backendOf(pv)
	if b == nil {
		return nil, volume.Volume{}, fmt.Errorf("node %s serves no PVs like this one", p.node.Name())
	}
	pool, name, err := b.validate(pv)
	if err != nil {
		return nil, volume.Volume{}, err
	}
	v, err := pool.Get(name)
	if err != nil {
		return pool, volume.Volume{}, err
	}
	return pool, v, b.matches(v, pv)
}
