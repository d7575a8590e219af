package claimpools

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// An operator that stood still goes on by what it read before: meanwhile another one gave the holder its pod back,
// which mounted the disk again. The Deployment is not deleted by what a Job proved earlier, no Job unmounts under
// the pod, and when the holder is to end again, another Job unmounts the disk.
func TestPodThatComesBack(t *testing.T) {
	for _, unmounted := range []bool{false, true} { // before the Job, and after it
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue))
		gone := objects.Desired{Settled: true}
		c.pass(poolP())
		c.runs()
		c.pass(gone) // to no pods
		c.runs()
		if unmounted {
			c.pass(gone)
			c.runs() // its Job
		}
		before := &unstructured.UnstructuredList{}
		before.SetAPIVersion("apps/v1")
		before.SetKind("DeploymentList")
		if err := c.List(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		d := c.holder(onN1)
		d.Spec.Replicas = ptr.To[int32](1)
		if err := c.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		made := 0
		counted := interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*batchv1.Job); is {
				made++
			}
			return to.Create(ctx, o, opts...)
		}}
		still := counted
		still.List = func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if old, is := list.(*unstructured.UnstructuredList); is {
				before.DeepCopyInto(old)
				return nil
			}
			return to.List(ctx, list, opts...)
		}
		c.k.Client = interceptor.NewClient(c.Client.(client.WithWatch), still)
		_, err := c.k.Reconcile(t.Context(), gone)
		if err != nil && !apierrors.IsConflict(err) || made > 0 {
			t.Errorf("unmounted %t: %v, %d Jobs", unmounted, err, made)
		}
		c.wantReplicas("n1", 1)
		c.k.Client, c.k.Record = interceptor.NewClient(c.Client.(client.WithWatch), counted), c.read()
		for range 8 {
			c.pass(gone)
			c.runs()
		}
		if c.wantReplicas("n1", -1); made != 1 {
			t.Errorf("unmounted %t: %d Jobs unmounted it after the pod had come back", unmounted, made)
		}
	}
}

// An operator that stood still after it had read what uses a disk, by whichever of its clocks, or whose last
// request before the unmount took long, reads that again before a Job unmounts the disk.
func TestUsesAreReadAgainAfterAStop(t *testing.T) {
	for name, late := range map[string]func(time.Time) time.Time{
		"a slow request":      func(now time.Time) time.Time { return now.Add(time.Minute) },
		"a suspended machine": func(now time.Time) time.Time { return now.Round(0).Add(time.Minute) },
	} {
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue))
		gone := objects.Desired{Settled: true}
		c.pass(poolP())
		c.runs()
		c.pass(gone) // to no pods
		c.runs()
		jobs := func() int {
			var all batchv1.JobList
			if err := c.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			return len(all.Items)
		}
		stopped := false
		c.k.Now = func() time.Time {
			if stopped {
				return late(time.Now())
			}
			return time.Now()
		}
		c.k.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, last := list.(*appsv1.DeploymentList)
				stopped = stopped || last
				return to.List(ctx, list, opts...)
			}})
		c.pass(gone)
		if n := jobs(); n > 0 || !stopped {
			t.Errorf("%s: stopped %t, %d Jobs unmount by what was read before", name, stopped, n)
		}
		c.k.Live, c.k.Now = c.Client, time.Now
		if c.pass(gone); jobs() != 1 {
			t.Errorf("%s: %d Jobs later", name, jobs())
		}
	}
}
