package suite

import (
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Any user can create large claims, of any class and for any node. The agent starts with all of
// them, goes on, and serves others within the memory of its container, whether or not the API
// server streams lists. This test has control planes of its own.
func TestLargeClaims(t *testing.T) {
	for _, row := range []string{"WatchList=false", "WatchList=true"} {
		t.Run(row, func(t *testing.T) {
			own := ownPlane(t, "--feature-gates="+row)
			s := own.Scene(t)
			group := s.MemoryGroup()
			a := s.Later(s.Node("01"), harness.Options{Program: group.Program})
			// The second waits for ever, and the agent keeps it.
			createLarge(s, 350, harness.Claim{Class: "of-another-provisioner"})
			createLarge(s, 350, harness.Claim{Node: a.Node.Name, Size: "1Pi"})
			a.Restart()
			a.AwaitReady()
			s.Bound(s.Create(harness.Claim{Node: a.Node.Name}))
			createLarge(s, 350, harness.Claim{Node: a.Node.Name, Size: "1Pi"})
			s.Bound(s.Create(harness.Claim{Node: a.Node.Name}))
			if !a.Alive() {
				t.Errorf("the agent has ended: %s", a.Ended())
			}
			if peak, err := group.Peak(); err != nil || peak > group.Limit/2 {
				t.Errorf("the agent used %d of %d MiB, %v", peak>>20, group.Limit>>20, err)
			} else {
				t.Logf("the agent used at most %d of %d MiB", peak>>20, group.Limit>>20)
			}
		})
	}
}

// createLarge creates n claims with as many bytes of annotations as the API server accepts, and a
// label.
func createLarge(s *harness.Scene, n int, c harness.Claim) {
	s.Helper()
	annotation := strings.Repeat("x", 255<<10)
	c.Edit = func(claim *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "x", annotation)
	}
	work, failed := make(chan harness.Claim), make(chan error, n)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for c := range work {
				object := c.Object()
				_, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Context(), object, metav1.CreateOptions{})
				failed <- err
			}
		})
	}
	for range n {
		work <- c
	}
	close(work)
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			s.Fatal(errors.Join(errors.New("create claims"), err))
		}
	}
}
