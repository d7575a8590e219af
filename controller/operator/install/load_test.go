package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// pvIn is a PV in the pool.
func pvIn(name, pool string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner,
			VolumeHandle: name, VolumeAttributes: map[string]string{contract.StoragePool: pool}}}}}
}

// counting returns a reader that counts the lists of PVs.
func (w *contender) counting(lists *int) client.Reader {
	return interceptor.NewClient(w.c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PersistentVolumeList); ok {
				*lists++
			}
			return c.List(ctx, list, opts...)
		}})
}

func (w *contender) offered() string {
	w.Helper()
	set, err := w.r.installed().DaemonSet(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	names := ""
	if set != nil {
		for _, p := range poolrecord.OfferOf(set.Spec.Template.Spec).Pools {
			names += p.Name
		}
	}
	return names
}

// While a pool is retained, passes do not list all PVs each time; it goes once PVs are counted and
// none has it.
func TestRetainedPoolIsCountedSeldom(t *testing.T) {
	w := contend(t, pvIn("pv-1", "a"))
	lists := 0
	w.r.Live = w.counting(&lists)
	w.pass()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	w.change(cr, "user", func() { cr.Spec.StoragePools = []v1beta1.StoragePool{{Name: "b", Path: "/b"}} })
	for range 50 {
		w.pass()
	}
	if lists != 1 || w.offered() != "ab" {
		t.Errorf("50 passes listed all PVs %d times; the agents offer %q", lists, w.offered())
	}
	if err := w.c.Delete(t.Context(), pvIn("pv-1", "a")); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(checkInterval)
	w.pass()
	if w.offered() != "b" {
		t.Errorf("the agents offer %q, although no PV is in pool a", w.offered())
	}
	if err := w.c.Create(t.Context(), pvIn("pv-2", "b")); err != nil { // after the count
		t.Fatal(err)
	}
	w.change(cr, "user", func() { cr.Spec.StoragePools = []v1beta1.StoragePool{{Name: "c", Path: "/c"}} })
	w.pass()
	if w.offered() != "bc" {
		t.Errorf("the agents offer %q; pool b has a PV that is younger than the last count", w.offered())
	}
}

// What keeps a pass from its end for long is looked at rarely: volumes that keep a pool, and those that
// keep a resource that is deleted.
func TestLongWaits(t *testing.T) {
	w := contend(t, pvIn("pv-1", "a"))
	w.pass()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	for _, what := range []string{"a pool that is removed", "a resource that is deleted"} {
		if strings.Contains(what, "pool") {
			w.change(cr, "user", func() { cr.Spec.StoragePools = []v1beta1.StoragePool{{Name: "b", Path: "/b"}} })
		} else if err := w.c.Delete(t.Context(), cr); err != nil {
			t.Fatal(err)
		}
		looks, first := 0, w.pass().RequeueAfter
		for until := w.now.Add(2 * time.Hour); w.now.Before(until); looks++ {
			pause := w.pass().RequeueAfter
			if pause <= 0 || pause > longestInterval {
				t.Fatalf("%s: the next look is after %s", what, pause)
			}
			w.now = w.now.Add(pause)
		}
		if first != checkInterval || looks > 90 {
			t.Errorf("%s: first after %s, and %d looks in two hours", what, first, looks)
		}
	}
}

// An API server that does not answer for a moment degrades nothing. One that does not for long
// does, and so does another error at once.
func TestErrorsThatPass(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for name, row := range map[string]struct {
		err    error
		passes bool
	}{
		"timeout":   {apierrors.NewTimeoutError("etcd", 1), true},
		"busy":      {apierrors.NewTooManyRequests("later", 1), true},
		"deadline":  {fmt.Errorf("dial: %w", context.DeadlineExceeded), true},
		"forbidden": {apierrors.NewForbidden(services, "x", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := contend(t)
			w.pass()
			failing := row.err
			through := interceptor.NewClient(w.c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if failing != nil && o.GetObjectKind().GroupVersionKind().Kind == "Service" {
						return failing
					}
					return c.Get(ctx, key, o, opts...)
				}})
			w.r.Client, w.r.Applier = through, w.r.Applier.Through(through)
			reason := func() string {
				_, _ = w.r.Reconcile(t.Context(), requestOf("hpp"))
				cr := &v1beta1.HostPathProvisioner{}
				if err := w.c.Get(t.Context(), client.ObjectKey{Name: "hpp"}, cr); err != nil {
					t.Fatal(err)
				}
				return progress(cr.Status).Reason
			}
			if got := reason(); (got != "ReconcileFailed") != row.passes {
				t.Errorf("after one error: %s", got)
			}
			w.now = w.now.Add(patience - time.Second)
			if got := reason(); (got != "ReconcileFailed") != row.passes {
				t.Errorf("within a minute: %s", got)
			}
			failing = nil
			if got := reason(); got == "ReconcileFailed" {
				t.Errorf("after it ended: %s", got)
			}
			failing = row.err
			w.now = w.now.Add(patience)
			if got := reason(); (got != "ReconcileFailed") != row.passes {
				t.Errorf("at another time: %s", got)
			}
			w.now = w.now.Add(patience)
			if got := reason(); got != "ReconcileFailed" {
				t.Errorf("after long: %s", got)
			}
		})
	}
}

// The agents run on Linux nodes, unless the resource names an operating system.
func TestOnLinux(t *testing.T) {
	for _, row := range []struct{ given, want map[string]string }{
		{nil, map[string]string{corev1.LabelOSStable: "linux"}},
		{map[string]string{"a": "b"}, map[string]string{"a": "b", corev1.LabelOSStable: "linux"}},
		{map[string]string{corev1.LabelOSStable: "other"}, map[string]string{corev1.LabelOSStable: "other"}},
	} {
		spec := v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}
		spec.Workload.NodeSelector = row.given
		if got := pod(t, spec).NodeSelector; !maps.Equal(got, row.want) {
			t.Errorf("%v: the agents run on %v", row.given, got)
		}
	}
}

// A webhook that cannot be applied does not keep the agents of a deleted resource from their
// objects, which its volumes need. The status then does not change.
func TestWebhookFailsWhileVolumesAreInUse(t *testing.T) {
	w := contend(t, pvIn("pv-1", "a"))
	w.pass()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	if err := w.c.Delete(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	set, err := w.r.installed().DaemonSet(t.Context())
	if err != nil || set == nil {
		t.Fatal(set, err)
	}
	if err := w.c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	through := interceptor.NewClient(w.c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Service" {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, o, opts...)
		}})
	w.r.Client, w.r.Applier = through, w.r.Applier.Through(through)
	if _, err := w.r.Reconcile(t.Context(), requestOf("hpp")); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("the pass returned %v", err)
	}
	if w.offered() != "a" {
		t.Errorf("the agents offer %q while a volume is in use", w.offered())
	}
	if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil || progress(cr.Status).Reason == "VolumesInUse" {
		t.Errorf("%+v, %v", progress(cr.Status), err)
	}
	w.r.Client, w.r.Applier = w.c, w.r.Applier.Through(w.c)
	w.pass()
	if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil || progress(cr.Status).Reason != "VolumesInUse" {
		t.Errorf("%+v, %v", progress(cr.Status), err)
	}
}
