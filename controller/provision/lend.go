package provision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// VolumeOf is Examine for those who act on the volume: while its PV is being
// replaced, the error is ErrMigrating.
func (p *PVs) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	pool, v, err := p.volumeOf(pv)
	if err == nil && v.Held() != nil {
		err = fmt.Errorf("PV %s: %w", pv.Name, v.Held())
	}
	return pool, v, err
}

// Examine returns the volume of a PV, and its pool, where the loop would act on
// the PV itself: it says the same thing throughout, and the volume's record
// names it. Of a PV that is not so, the loop says what is wrong.
//
// The error is an ErrNotReady where the pool is not ready; the PV was examined
// then, and the pool is returned.
//
// A PV of another provisioner that may be taken over is one of the loop's here.
// Its volume has no state before it is adopted.
func (p *PVs) Examine(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	if other := class.MadeByOther(pv, p.others); other != nil {
		return p.examineOther(other, pv)
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

// PVs returns the saved PVs of this node that the loop knows of, from memory: the
// watched ones, and those of the last sweep that have no label of ours yet.
func (p *PVs) PVs() (all []*corev1.PersistentVolume) {
	seen := map[string]bool{}
	for _, obj := range p.informer.GetStore().List() {
		if pv := obj.(*corev1.PersistentVolume); pv.UID != "" {
			all, seen[pv.Name] = append(all, pv), true
		}
	}
	older := *p.older.Load()
	for i := range older {
		if !seen[older[i].Name] {
			all = append(all, &older[i])
		}
	}
	return all
}

// Names returns the pool and the directory that a PV names, nil where that is no
// pool of this node, or where PVs of its backend are not served here. What else the
// PV says may contradict it.
func (p *PVs) Names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	b := p.backendOf(pv)
	if b == nil {
		return nil, ""
	}
	return b.names(pv)
}
