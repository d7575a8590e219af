package provision

import (
	"errors"
	"testing"

	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A copy that gave way to a pod starts again once the pod ceases to use the source, and not after a pause.
func TestCopyBeginsOnceUnpublished(t *testing.T) {
	c := newCopyTest(t, "csi-now", true)
	ignored := func(what string) {
		t.Helper()
		if _, _, err := c.Provision(t.Context(), c.o); !errors.As(err, new(*lib.IgnoredError)) {
			t.Fatal(what, err)
		}
	}
	ignored("under way")
	<-c.at
	_, job, _ := c.jobOf(c.o.PVC)
	pool := c.Pools.Named("legacy")
	c.check(pool.Pin("pvc-src", func(volume.Pinned) error { return nil }))
	c.release()
	<-job.Ended
	ignored("gave way")
	c.should("in use", false)
	c.Unpublished("another")
	c.should("another volume is not in use any more", false)
	c.Unpublished("pvc-src")
	c.should("not in use any more", true)
	if pv, _, err := c.Provision(t.Context(), c.o); err != nil || pv == nil {
		t.Error(pv, err)
	}
	// What failed later, or for another reason, waits.
	c.copies.failed(testUID, "pvc-src")
	c.should("in use again", false)
	c.copies.failed(testUID, "")
	c.Unpublished("pvc-src")
	c.should("failed", false)
}
