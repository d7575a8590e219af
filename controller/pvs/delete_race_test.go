package pvs

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume that is given to another claim after Delete found that it is the PV's
// stays: Delete reads the record again while nobody else works on the volume.
func TestDeleteReadsTheRecordAgain(t *testing.T) {
	for range 5 { // the calls rarely come in another order than they are made
		k := newRetained(t, "csi")
		k.serve(t)
		k.mustTransfer()
		k.release()
		k.serve(t)
		given := k.binding(k.seen, volume.Owner{Namespace: "elsewhere", Name: "third", UID: "third"})

		pinned, release, reowned, deleted := make(chan bool), make(chan bool), make(chan error), make(chan error)
		go func() {
			_ = k.pool.Pin(k.name, func(volume.Pinned) error {
				close(pinned)
				<-release
				return nil
			})
		}()
		<-pinned
		go func() { reowned <- k.pool.Transfer(k.name, nextUID, given) }()
		time.Sleep(100 * time.Millisecond) // in which it begins to wait for the pin
		go func() { deleted <- k.Delete(t.Context(), k.seen) }()
		time.Sleep(300 * time.Millisecond) // in which it reads the record and begins to wait, too
		close(release)
		if <-reowned != nil { // it came last
			<-deleted
			continue
		}
		if err := <-deleted; err == nil {
			t.Error("it deletes another claim's volume")
		}
		if v, err := k.pool.Get(k.name); err != nil || v.Owner.UID != "third" || v.State == volume.Deleting {
			t.Errorf("%+v, %v", v, err)
		}
		return
	}
	t.Error("the volume was never given away in time; it proves nothing")
}
