package suite

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// silent is what an agent says of a disk that hangs.
const silent = "does not answer"

// hangingNode is a node with two pools, hostPath claims in one on a disk of its own, CSI claims of
// the class in the other, and its agent.
func hangingNode(s *harness.Scene) (a *harness.Agent, disk *harness.Disk, class string) {
	s.Helper()
	node := s.Node("01")
	disk = s.Disk("ext4", diskSize)
	disk.Mount(node.Pool)
	a = s.Agent(node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir("fast", s.Path("pools", "fast"))})
	return a, disk, s.CSIClass("fast", func(c *storagev1.StorageClass) {
		c.Parameters = map[string]string{harness.StoragePool: "fast"}
	})
}

// served makes a claim of the other pool and waits until it is bound.
func served(s *harness.Scene, a *harness.Agent, class string) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
	s.Bound(claim)
	return claim
}

// A disk hangs, and more claims want it than the agent has workers. The other pool's are served,
// everybody is told, and all goes on by itself when the disk answers.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a, disk, class := hangingNode(s)
	deleted := s.Create(harness.Claim{Node: a.Node.Name})
	s.Bound(deleted)
	elsewhere := served(s, a, class)

	thaw := disk.Freeze(a.Pool)
	var waiting []*corev1.PersistentVolumeClaim
	for range 12 {
		waiting = append(waiting, s.Create(harness.Claim{Node: a.Node.Name}))
	}
	s.Delete(deleted)
	served(s, a, class) // while the disk hangs
	a.AwaitUnready(silent)
	for _, row := range []struct {
		pool string
		want float64
	}{{"hostpath", 0}, {"fast", 1}} {
		if err := a.MetricIs(row.want, "kubevirt_hpp_pool_ready", fmt.Sprintf("pool=%q", row.pool)); err != nil {
			t.Error(err)
		}
	}
	if status, body, err := a.Get("/healthz"); err != nil || status != http.StatusOK {
		t.Errorf("healthz: %d %q, %v", status, body, err)
	}
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonNotReady) })
	for _, claim := range waiting {
		s.Eventually("event on "+claim.Name, func() error { return saysSilent(s, claim) })
	}
	for range 3 {
		served(s, a, class)
	}
	s.Delete(elsewhere)
	s.Gone(harness.PVName(elsewhere))
	for _, claim := range waiting {
		if err := s.IsPending(claim); err != nil {
			t.Error(err)
		}
	}

	thaw()
	for _, claim := range waiting {
		s.Bound(claim)
	}
	s.Gone(harness.PVName(deleted))
	a.AwaitReady()
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonReady) })
	names := make([]string, len(waiting))
	for i, claim := range waiting {
		names[i] = harness.PVName(claim)
	}
	slices.Sort(names)
	wantTree(s, a.Pool, names...)
}

func saysSilent(s *harness.Scene, claim *corev1.PersistentVolumeClaim) error {
	all := s.Events(claim.UID)
	for _, e := range all {
		if e.Ours() && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, silent) {
			return nil
		}
	}
	return fmt.Errorf("none says that the disk %s: %v", silent, all)
}

// An agent that shall end, while a disk holds one of its threads, cannot: it gives up the other
// pools, so that the next agent has them at once, and the pool of that disk once that answers.
func TestDiskHangsAtTheEnd(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a, disk, class := hangingNode(s)
	thaw := disk.Freeze(a.Pool)
	waiting := s.Create(harness.Claim{Node: a.Node.Name})
	a.AwaitUnready(silent)

	a.Terminate()
	next := s.Start(a.Node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir("fast", s.Path("pools", "fast"))})
	s.Eventually("the other pool", func() error {
		return next.MetricIs(1, "kubevirt_hpp_pool_ready", `pool="fast"`)
	})
	served(s, next, class)
	if !a.Alive() {
		t.Error("the agent has ended: the disk held none of its threads")
	}
	if err := next.MetricIs(0, "kubevirt_hpp_pool_ready", `pool="hostpath"`); err != nil {
		t.Error(err)
	}

	thaw()
	s.Bound(waiting)
	next.AwaitReady()
	s.Eventually("end of the agent", func() error {
		if a.Alive() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	wantTree(s, filepath.Clean(next.Pool), harness.PVName(waiting))
}
