package pvs

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestDeleteReadsTheRecordAgain gives the volume to another claim after Delete compared its
// record. The volume stays: Delete compares the record again under the volume's lock.
func TestDeleteReadsTheRecordAgain(t *testing.T) {
	for range 5 { // rarely, the calls get the lock in another order
		k := newRetained(t, "csi")
		k.serve(t)
		k.mustTransfer()
		k.release()
		k.serve(t)
		given := k.binding(k.seen, record.Owner{Namespace: "elsewhere", Name: "third", UID: "third"})

		pinned, release, transferred, deleted := make(chan bool), make(chan bool), make(chan error), make(chan error)
		go func() {
			_ = k.pool.Pin(k.name, func(volume.Pinned) error {
				close(pinned)
				<-release
				return nil
			})
		}()
		<-pinned
		go func() { transferred <- k.pool.Transfer(k.name, nextUID, given) }()
		time.Sleep(100 * time.Millisecond) // in which it begins to wait for the pin
		go func() { deleted <- k.Delete(t.Context(), k.seen) }()
		time.Sleep(300 * time.Millisecond) // in which it reads the record and begins to wait, too
		close(release)
		if <-transferred != nil { // it got the lock last
			<-deleted
			continue
		}
		if err := <-deleted; err == nil {
			t.Error("Delete deletes another claim's volume")
		}
		if v, err := k.pool.Get(k.name); err != nil || v.Owner.UID != "third" || v.State == record.Deleting {
			t.Errorf("%+v, %v", v, err)
		}
		return
	}
	t.Error("Transfer never got the lock first; the test proves nothing")
}
