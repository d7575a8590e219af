package suite

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Not parallel: its claims per second are to be read, and claims of other tests would wait behind
// these to be bound.
func TestBurst(t *testing.T) {
	const many = 100
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{Program: built(t, env.Racing)})
	claims := make([]*corev1.PersistentVolumeClaim, many)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() { claims[i] = s.Create(harness.Claim{Node: a.Node.Name}) })
	}
	wg.Wait()
	mine := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace)
	s.Eventually("all bound", func() error {
		list, err := mine.List(t.Context(), metav1.ListOptions{})
		bound := 0
		for _, c := range list.Items {
			if c.Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		if err == nil && bound != many {
			err = fmt.Errorf("%d of %d", bound, many)
		}
		return err
	})
	took := time.Since(begin)
	t.Logf("%d claims bound in %s: %.0f a second", many, took.Round(time.Millisecond), many/took.Seconds())
	if got := len(s.Children(a.Pool)); got != many {
		t.Errorf("%d directories, want %d", got, many)
	}
	if err := a.MetricIs(many*10<<20, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}
	s.Eventually("all recorded as bound", func() error {
		return a.MetricIs(many, "kubevirt_hpp_pool_volumes", `state="bound"`)
	})

	begin = time.Now()
	if err := mine.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("all gone", func() error {
		for _, c := range claims {
			if err := s.IsGone(harness.PVName(c)); err != nil {
				return err
			}
		}
		return nil
	})
	took = time.Since(begin)
	t.Logf("%d claims deleted in %s: %.0f a second", many, took.Round(time.Millisecond), many/took.Seconds())
	s.Eventually("empty pool", func() error { return empty(s, a) })
}
