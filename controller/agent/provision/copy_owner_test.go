package provision

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A copy that was begun under the claim's PV name for another owner is left alone: the provisioner
// sidecar, which passes no claim on, may be making it.
func TestCopyOfAnotherOwnerGoesOn(t *testing.T) {
	for _, uid := range []string{"", "other"} {
		c := newCopyTest(t, "csi-now", true)
		pool := c.Pools.Named("legacy")
		from, err := pool.Get("pvc-src")
		c.check(err)
		s := volume.NewCloneSpec(volume.Spec{Name: c.o.PVName, Bytes: 1 << 20, PV: c.o.PVName, Cluster: "c",
			Owner: record.Owner{UID: uid}}, false, true)
		source := record.SourceOf(pool.ID(), from.Record)
		s.Source = &source
		if _, err := c.Pools.Clone(pool, s); !errors.Is(err, volume.ErrCloning) {
			t.Fatal(err)
		}
		<-c.at
		job, _ := pool.CloneJob(s.Name)
		c.check(c.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), c.o.PVC.Name, metav1.DeleteOptions{}))
		c.endCopy(t.Context(), c.o.PVC)
		c.release()
		<-job.Ended
		if r, there := pool.Cached(s.Name); !there || r.Owner.UID != uid {
			t.Errorf("owner %q: the copy is gone: %+v", uid, r)
		}
	}
}
