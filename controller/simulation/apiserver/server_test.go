package apiserver

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

// An informer sees creations, changes and deletions, late by the lag of its client, and goes on after
// its history has expired.
func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := New()
		s.Lag = func(who string) time.Duration { return map[string]time.Duration{"late": time.Minute}[who] }
		maps := kubernetes.NewForConfigOrDie(s.Config("god")).CoreV1().ConfigMaps("default")
		f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(s.Config("late")), 0)
		lister := f.Core().V1().ConfigMaps().Lister()
		want := func(n int, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if l, _ := lister.List(labels.Everything()); len(l) != n {
				t.Errorf("%d objects in the cache, want %d", len(l), n)
			}
		}
		_, err := maps.Create(ctx, configMap("one"), metav1.CreateOptions{})
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
		_, again := maps.Create(ctx, configMap("two"), metav1.CreateOptions{})
		want(1, time.Second)
		want(2, time.Minute)
		s.Expire()
		want(2, time.Hour)
		if err := errors.Join(err, again, maps.Delete(ctx, "one", metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
		want(1, 2*time.Minute)
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "2"})
		if err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			t.Errorf("watch from before: %v", e)
		}
		w.Stop()
		nodes := metadata.NewForConfigOrDie(s.Config("god")).Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		if l, err := nodes.List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 {
			t.Errorf("metadata: %v %v", l, err)
		}
		stop()
		f.Shutdown()
	})
}

// What the hooks say is done, and nothing is counted or seen twice.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		var dead atomic.Bool
		var fault Fault
		var seen []string
		s.Gate = func(string) error {
			if dead.Load() {
				return errors.New("dead")
			}
			return nil
		}
		s.Latency = func(Request) time.Duration { return time.Second }
		s.Fault = func(Request) Fault { return fault }
		s.Admit = func(w *Write) error {
			if w.Name == "refused" {
				return apierrors.NewForbidden(corev1.Resource("configmaps"), w.Name, errors.New("by a rule"))
			}
			if w.New != nil {
				w.New["data"] = Object{"by": "webhook"}
			}
			return nil
		}
		s.Seen = func(w Write) { seen = append(seen, w.Verb+" "+w.Name) }
		maps := kubernetes.NewForConfigOrDie(s.Config("agent/a#1")).CoreV1().ConfigMaps("default")
		create := func(name string) error {
			_, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{})
			return err
		}
		began := time.Now()
		if err := create("refused"); !apierrors.IsForbidden(err) || time.Since(began) != time.Second {
			t.Errorf("refused: %v after %s", err, time.Since(began))
		}
		fault = Fault{Code: 409}
		if err := create("a"); !apierrors.IsConflict(err) {
			t.Errorf("409: %v", err)
		}
		fault = Fault{Code: 504, Late: true}
		if err := create("a"); !apierrors.IsTimeout(err) {
			t.Errorf("504: %v", err)
		}
		fault = Fault{Code: Lost}
		if err := create("b"); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("lost: %v", err)
		}
		fault = Fault{}
		if err := create("a"); !apierrors.IsAlreadyExists(err) {
			t.Errorf("after a late fault: %v", err)
		}
		if data := s.Objects("configmaps")[0]["data"].(Object); data["by"] != "webhook" {
			t.Errorf("data: %v", data)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-w.ResultChan()
		dead.Store(true)
		if err := create("c"); err == nil {
			t.Error("a dead client wrote")
		}
		if got := s.Counts()["agent/a#1 create configmaps"]; got != 6 || !slices.Equal(seen, []string{"create a"}) {
			t.Errorf("%d creations counted, seen: %v", got, seen)
		}
		w.Stop()
	})
}

// Objects whose owners are absent are deleted, and what is deleted in the foreground waits for them.
func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		client := kubernetes.NewForConfigOrDie(s.Config("god"))
		maps := client.CoreV1().ConfigMaps("ns")
		owner := func(name string) metav1.OwnerReference {
			o, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: o.UID}
		}
		create := func(name string, owners ...metav1.OwnerReference) {
			if _, err := maps.Create(t.Context(), configMap(name, owners...), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		left := func(want ...string) {
			t.Helper()
			for range 3 {
				s.Collect("god/gc")
			}
			var names []string
			for _, o := range s.Objects("configmaps") {
				names = append(names, text(o, "metadata.name"))
			}
			if !slices.Equal(names, want) {
				t.Errorf("left: %v, want %v", names, want)
			}
		}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		create("a")
		create("b")
		absent := owner("a")
		absent.UID = "absent"
		unknown := metav1.OwnerReference{APIVersion: "x/v1", Kind: "Y", Name: "z", UID: "z"}
		create("of-a", owner("a"))
		create("of-of-a", owner("of-a"))
		create("of-both", owner("a"), owner("b"))
		create("of-absent", absent)
		absent = owner("a")
		absent.Name = "b"
		create("of-renamed", absent)
		create("of-unknown", unknown)
		left("a", "b", "of-a", "of-both", "of-of-a", "of-unknown")
		if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		left("b", "of-both", "of-unknown")
		foreground := metav1.DeletePropagationForeground
		if err := maps.Delete(t.Context(), "b", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
			t.Errorf("deleted before its dependents: %v", err)
		}
		left("of-unknown")
		if err := client.CoreV1().Namespaces().Delete(t.Context(), "ns", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Create(t.Context(), configMap("late"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("creation in a namespace that ends: %v", err)
		}
		left()
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "ns", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace: %v", err)
		}
	})
}

// The clients of discovery find every resource, and the version.
func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := discovery.NewDiscoveryClientForConfigOrDie(New().Config("god"))
		_, lists, err := client.ServerGroupsAndResources()
		n := 0
		for _, l := range lists {
			n += len(l.APIResources)
		}
		v, bad := client.ServerVersion()
		if err != nil || bad != nil || n < len(builtin) || v.Minor != "34" {
			t.Errorf("%d resources, %v, %v, %v", n, v, err, bad)
		}
	})
}

// Bound claims grow if their class allows it. A real server would have to bind one first.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, New().Config("table"), `
POST /apis/storage.k8s.io/v1/storageclasses {"metadata":{"name":"c"},"provisioner":"a.b/c"} -> 201
POST $ns/persistentvolumeclaims {"metadata":{"name":"a"},"spec":{"storageClassName":"c","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}} -> 201
MERGE $ns/persistentvolumeclaims/a/status {"status":{"phase":"Bound","capacity":{"storage":"2Gi"}}} -> 200
MERGE $ns/persistentvolumeclaims/a {"spec":{"resources":{"requests":{"storage":"3Gi"}}}} -> 403 Forbidden
MERGE /apis/storage.k8s.io/v1/storageclasses/c {"allowVolumeExpansion":true} -> 200
MERGE $ns/persistentvolumeclaims/a {"spec":{"resources":{"requests":{"storage":"3Gi"}}}} -> 200
MERGE $ns/persistentvolumeclaims/a {"spec":{"resources":{"requests":{"storage":"2500Mi"}}}} -> 200
MERGE $ns/persistentvolumeclaims/a {"spec":{"resources":{"requests":{"storage":"1Gi"}}}} -> 422 Invalid`)
	})
}
