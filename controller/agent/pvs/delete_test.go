package pvs

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
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

// TestDeleteWithoutRecord has the released PV of a directory that an older provisioner made: it is
// deleted once it is adopted and confirmed, and it is gone if the directory is.
func TestDeleteWithoutRecord(t *testing.T) {
	for _, uuid := range []bool{false, true} {
		c := newPVs(t)
		setObjects(t, c)
		pv := validPV(c, "wait")
		pv.UID, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = "pv-uid", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
		pv.CreationTimestamp = metav1.Now()
		if !uuid {
			delete(pv.Annotations, contract.AnnPool)
		}
		pool, name := c.backendOf(pv).PoolOf(pv)
		if err := os.Mkdir(filepath.Join(pool.Path(), name), 0o755); err != nil {
			t.Fatal(err)
		}
		setObjects(t, c, pv)
		err := c.Delete(t.Context(), pv)
		if c.Deletable(pv) == nil || err == nil || !strings.Contains(err.Error(), "has no record yet") {
			t.Errorf("before it is adopted: %v", err)
		}
		if err := c.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
		if err := c.sync(t.Context(), pv.Name); err != nil {
			t.Fatal(err)
		}
		pv = pv.DeepCopy()
		pv.Annotations[contract.AnnDeleteVolume] = string(pv.UID)
		setObjects(t, c, pv)
		for _, call := range []string{"first", "second"} {
			if err := errors.Join(c.Deletable(pv), c.Delete(t.Context(), pv)); err != nil {
				t.Errorf("%s call: %v", call, err)
			}
		}
		if there, err := pool.HasDirectory(name); there || err != nil {
			t.Errorf("the directory is there: %v, %v", there, err)
		}
	}
}

// A deletion that waits for its pool's disk is tried twice a minute, and asks the API server for nothing.
func TestDeleteWithoutPoolAsksNothing(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		k := newRetained(t, className)
		k.mustTransfer()
		k.release()
		requests, answer := 0, apitest.Objects(k.Node.Name(), k.now)
		setAnswer(t, k.PVs, func(r *http.Request) (int, any) {
			requests++
			return answer(r)
		})
		if err := os.Rename(k.pool.Path(), k.pool.Path()+".away"); err != nil {
			t.Fatal(err)
		}
		if err := k.Delete(t.Context(), k.seen); !errors.Is(err, volume.ErrNotReady) || requests > 0 {
			t.Errorf("%s: %v, after %d requests", className, err, requests)
		}
		if err := os.Rename(k.pool.Path()+".away", k.pool.Path()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(k.pool.Open(), k.Delete(t.Context(), k.seen)); err != nil || requests == 0 {
			t.Errorf("%s: the disk is back: %v, after %d requests", className, err, requests)
		}
	}
}

// TestDeleteReadsTheClaim restores etcd from a backup in which the claim of a Released PV lives, while the
// watches still have what was there before: Delete asks the API server.
func TestDeleteReadsTheClaim(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		k := newRetained(t, className)
		k.mustTransfer()
		claim := k.next
		k.release()
		k.next = claim
		k.serve(t)
		if err := k.Delete(t.Context(), k.seen); !errors.As(err, new(Kept)) {
			t.Errorf("%s: the claim lives again: %v", className, err)
		}
		k.next = nil
		k.serve(t)
		if err := k.Delete(t.Context(), k.seen); err != nil {
			t.Errorf("%s: the claim is gone: %v", className, err)
		}
	}
}

// TestDeleteReadsThePV has a watch that is behind: the PV was changed since it was Released with policy
// Delete. Delete asks the API server, and the volume stays.
func TestDeleteReadsThePV(t *testing.T) {
	for what, change := range map[string]func(*retained){
		"set to Retain": func(k *retained) { k.now.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain },
		"set, and deleted": func(k *retained) {
			k.now.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			k.now.DeletionTimestamp = new(metav1.Now())
		},
		"bound again":        func(k *retained) { k.now.Status.Phase = corev1.VolumeBound },
		"waits for a claim":  func(k *retained) { k.now.Spec.ClaimRef = nil },
		"given to another":   func(k *retained) { k.now.Spec.ClaimRef.UID = "third" },
		"of another node":    func(k *retained) { k.now.Annotations[contract.AnnPool] = "another" },
		"gone":               func(k *retained) { k.now = nil },
		"made again":         func(k *retained) { k.now.UID = "another" },
		"it is as it was":    func(*retained) {},
		"set, and not known": nil,
	} {
		for _, className := range []string{"wait", "csi"} {
			k := newRetained(t, className)
			k.mustTransfer()
			k.release()
			if change != nil {
				change(k)
				k.serve(t)
			} else {
				setAnswer(t, k.PVs, apitest.Paths(map[string]any{"persistentvolumes/" + k.seen.Name: http.StatusForbidden}))
			}
			if err := k.Deletable(k.seen); err != nil {
				t.Fatalf("%s, %s: from memory: %v", className, what, err)
			}
			err := k.Delete(t.Context(), k.seen)
			there, unread := k.pool.HasDirectory(k.name)
			if goes := what == "it is as it was"; unread != nil || there == goes || (err == nil) != goes {
				t.Errorf("%s, %s: the directory is there: %v, %v, after %v", className, what, there, unread, err)
			}
		}
	}
}
