package pvs

import (
	"context"
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
// If the marks of the PV disagree, Validate asks the API server about the Nodes that they name: always if fresh is set, and
// otherwise if it was not asked lately.
//
// The error is an ErrNotReady if the pool is not ready; the PV is valid then, and the pool
// is returned.
func (p *PVs) Validate(ctx context.Context, pv *corev1.PersistentVolume, fresh bool) (*volume.Pool, volume.Volume, error) {
	maxAge := resync
	if fresh {
		maxAge = 0
	}
	if other := class.MadeBy(pv, p.otherProvisioners); other != nil {
		p.askNodes(ctx, p.rulesOf(other), pv, maxAge)
		return p.validateOther(other, pv)
	}
	if b := p.backendOf(pv); b != nil {
		p.askNodes(ctx, b, pv, maxAge)
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
