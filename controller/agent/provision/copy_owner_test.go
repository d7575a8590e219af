package provision

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
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

// A volume that is itself a copy can be copied once its claim is bound.
func TestCopyOfACopy(t *testing.T) {
	c := newCopyTest(t, "csi-now", false)
	_, _, err := c.Provision(t.Context(), c.o)
	c.check(err)
	first := classtest.Claim(testUID, "csi-now", c.o.PVName)
	first.Spec.Resources.Requests = c.o.PVC.Spec.Resources.Requests
	_, err = c.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), first, metav1.UpdateOptions{})
	c.check(err)
	pv := classtest.PV(c.Pools, testUID, "csi-now")
	pv.UID, pv.Status.Phase = "uid-first", corev1.VolumeBound
	c.saved(pv)
	pool := c.Pools.Named("legacy")
	_, err = pool.Bind(pv.Name, volume.Binding{PV: pv.Name, UID: "uid-first", Cluster: "c", ReclaimPolicy: "Delete", Bound: true,
		Owner: record.Owner{Namespace: "default", Name: first.Name, UID: testUID}})
	c.check(err)

	second := classtest.Claim("second", "csi-now", "")
	second.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	second.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: first.Name}
	c.o.PVC, c.o.PVName = second, contract.PVName(second)
	c.should("a copy of a copy", true)
	_, _, err = c.Provision(t.Context(), c.o)
	c.check(err)
	if v, err := pool.Get(c.o.PVName); err != nil || v.Source.UID != testUID || v.Source.Before == nil || v.Source.Before.UID != "src" {
		t.Errorf("%+v, %v", v.Source, err)
	}
}
