package provision

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The claim of a copy is gone, and another claim has its name at once. The watch reports a deletion or, if
// it missed that, a change. The copy ends, nothing is left of it, and the other claim gets its own.
func TestCopyEndsWithItsClaim(t *testing.T) {
	for name, replace := range map[string]func(c *copyTest, again *corev1.PersistentVolumeClaim){
		"reported": func(c *copyTest, again *corev1.PersistentVolumeClaim) {
			api := c.client.CoreV1().PersistentVolumeClaims("default")
			c.check(api.Delete(t.Context(), again.Name, metav1.DeleteOptions{}))
			_, err := api.Create(t.Context(), again, metav1.CreateOptions{})
			c.check(err)
		},
		"missed": func(c *copyTest, again *corev1.PersistentVolumeClaim) {
			_, err := c.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), again, metav1.UpdateOptions{})
			c.check(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCopyTest(t, "csi-now", true)
			factory := informers.NewSharedInformerFactory(c.client, 0)
			c.check(c.endCopies(t.Context(), factory.Core().V1().PersistentVolumeClaims().Informer()))
			factory.Start(t.Context().Done())
			factory.WaitForCacheSync(t.Context().Done())
			if _, _, err := c.Provision(t.Context(), c.o); !errors.As(err, new(*lib.IgnoredError)) {
				t.Fatal(err)
			}
			<-c.at
			pool, job, _ := c.jobOf(c.o.PVC)
			again := c.o.PVC.DeepCopy()
			again.UID = "again"
			replace(c, again)
			for end := time.Now().Add(30 * time.Second); !asked(c, again.Name) && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(300 * time.Millisecond) // it has the answer
			c.release()
			<-job.Ended
			if r, there := pool.Cached(c.o.PVName); there {
				t.Errorf("the copy is there: %+v", r)
			}
			c.o.PVC, c.o.PVName = again, "pvc-again"
			c.should("made again", true)
			for {
				_, _, err := c.Provision(t.Context(), c.o)
				if err == nil {
					break
				}
				if !errors.As(err, new(*lib.IgnoredError)) {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			if v, err := pool.Get("pvc-again"); err != nil || v.Owner.UID != "again" || v.Source == nil {
				t.Errorf("%+v, %v", v, err)
			}
			if _, err := pool.Get("pvc-" + testUID); !errors.Is(err, volume.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// asked reports whether the agent asked whether the claim of that name is gone.
func asked(c *copyTest, name string) bool {
	return slices.ContainsFunc(c.client.Actions(), func(a clienttesting.Action) bool {
		get, ok := a.(clienttesting.GetAction)
		return ok && a.Matches("get", "persistentvolumeclaims") && get.GetName() == name
	})
}
