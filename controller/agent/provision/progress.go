package provision

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
)

// deletionProgress records how far the deletion of each PV is. The library calls Delete for
// the volume, then the client for the PV, and then the client once more for the
// finalizer. The watch may deliver all of that late.
type deletionProgress struct {
	withoutVolume sync.Map   // PVs by name
	done          *lru.Cache // UIDs of PVs
}

func newDeletionProgress() *deletionProgress {
	return &deletionProgress{done: lru.New(claims.RememberMost)}
}

// volumeGone records that the PV's volume is deleted. The PV itself is deleted next.
func (d *deletionProgress) volumeGone(pv *corev1.PersistentVolume) {
	d.withoutVolume.Store(pv.Name, pv)
}

// take returns the PV of that name if its volume is deleted, nil for any other PV.
// It does so once: the caller deletes the PV.
func (d *deletionProgress) take(name string) *corev1.PersistentVolume {
	pv, ok := d.withoutVolume.LoadAndDelete(name)
	if !ok {
		return nil
	}
	return pv.(*corev1.PersistentVolume)
}

// over records that the PV is deleted and has the library's finalizer no more.
func (d *deletionProgress) over(pv *corev1.PersistentVolume) { d.done.Add(pv.UID, nil) }

// isOver reports whether over was called for the PV, as far as that is remembered.
func (d *deletionProgress) isOver(pv *corev1.PersistentVolume) bool {
	_, ok := d.done.Get(pv.UID)
	return ok
}
