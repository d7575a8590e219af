package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// An informer of client-go sees creations, changes and deletions, late by the lag of its client.
func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := New()
		s.Lag = func(who string) time.Duration {
			if who == "late" {
				return time.Minute
			}
			return 0
		}
		god := kubernetes.NewForConfigOrDie(s.Config("god")).CoreV1().Nodes()
		create := func(name string) *corev1.Node {
			n, err := god.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": name}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		create("one")
		f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(s.Config("late")), 0)
		nodes := f.Core().V1().Nodes().Lister()
		count := func() int { l, _ := nodes.List(labels.Everything()); return len(l) }
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
		two := create("two")
		time.Sleep(time.Second)
		if n := count(); n != 1 {
			t.Errorf("%d nodes in the cache after a second, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := count(); n != 2 {
			t.Errorf("%d nodes in the cache, want 2", n)
		}
		two.Labels["a"] = "b"
		if _, err := god.Update(ctx, two, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := god.Update(ctx, two, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("update of an old version: %v", err)
		}
		m := metadata.NewForConfigOrDie(s.Config("god")).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
		if p, err := m.Get(ctx, "two", metav1.GetOptions{}); err != nil || p.Labels["a"] != "b" {
			t.Errorf("metadata: %v %v", p, err)
		}
		uid := two.UID
		if err := god.Delete(ctx, "one", *metav1.NewPreconditionDeleteOptions(string(uid))); !apierrors.IsConflict(err) {
			t.Errorf("deletion with another UID: %v", err)
		}
		if err := god.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if n := count(); n != 1 {
			t.Errorf("%d nodes in the cache, want 1", n)
		}
		stop()
		f.Shutdown()
	})
}
