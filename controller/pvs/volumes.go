package pvs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// VolumeOf is Validate for those who act on the volume: while its PV is being
// replaced, the error is ErrMigrating.
func (p *PVs) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	pool, v, err := p.volumeOf(pv)
	if err == nil && v.Held() != nil {
		err = fmt.Errorf("PV %s: %w", pv.Name, v.Held())
	}
	return pool, v, err
}

// Validate returns the volume of a PV, and its pool, where the loop would act on
// the PV itself: it says the same thing throughout, and the volume's record
// names it. Of a PV that is not so, the loop says what is wrong.
//
// The error is an ErrNotReady where the pool is not ready; the PV was examined
// then, and the pool is returned.
//
// A PV of another provisioner that may be taken over is one of the loop's here.
// Its volume has no state before it is adopted.
func (p *PVs) Validate(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	if other := class.MadeByOther(pv, p.otherProvisioners); other != nil {
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
