package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A pool whose disk is away must not be created in its place, and nothing in it may be called
// deleted. Each row takes the disk away in another way, and brings it back.
func TestDiskAway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, filesystem string
		words            string // of readyz
		away, back       func(*harness.Scene, *harness.Agent, *harness.Disk)
	}{
		{"not mounted after a restart", "ext4", "not mounted",
			func(s *harness.Scene, a *harness.Agent, d *harness.Disk) {
				a.Stop()
				s.Unmount(a.Pool)
				a.Restart()
			},
			func(_ *harness.Scene, a *harness.Agent, d *harness.Disk) { d.Mount(a.Pool) },
		},
		{"not mounted after a restart, and no mount point", "xfs", "not mounted",
			func(s *harness.Scene, a *harness.Agent, d *harness.Disk) {
				a.Stop()
				s.Unmount(a.Pool)
				if err := os.Remove(a.Pool); err != nil {
					s.Fatal(err)
				}
				a.Restart()
			},
			func(_ *harness.Scene, a *harness.Agent, d *harness.Disk) { d.Mount(a.Pool) },
		},
		{"unmounted", "xfs", "not mounted",
			func(s *harness.Scene, a *harness.Agent, d *harness.Disk) { s.Unmount(a.Pool) },
			func(_ *harness.Scene, a *harness.Agent, d *harness.Disk) { d.Mount(a.Pool) },
		},
		{"hidden", "ext4", "not mounted",
			func(s *harness.Scene, a *harness.Agent, d *harness.Disk) { s.Cover(a.Pool) },
			func(s *harness.Scene, a *harness.Agent, d *harness.Disk) { s.Unmount(a.Pool) },
		},
		{"read-only", "xfs", "read-only",
			func(_ *harness.Scene, a *harness.Agent, d *harness.Disk) { d.Remount(a.Pool, syscall.MS_RDONLY) },
			func(_ *harness.Scene, a *harness.Agent, d *harness.Disk) { d.Remount(a.Pool, 0) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			disk := s.Disk(test.filesystem, diskSize)
			disk.Mount(node.Pool)
			a := s.Agent(node, harness.Options{})
			kept, deleted := s.Create(harness.Claim{Node: node.Name}), s.Create(harness.Claim{Node: node.Name})
			s.Write(s.Bound(kept).Spec.HostPath.Path, "data", []byte("precious"))
			s.Bound(deleted)

			test.away(s, a, disk)
			deletions := wantIdle(s, a, test.words, deleted)
			waiting := wantWait(s, a, deleted, deletions)
			test.back(s, a, disk)
			s.Bound(waiting)
			s.Gone(harness.PVName(deleted))
			a.AwaitReady()
			s.Eventually("event", func() error { return nodeEvent(s, node, harness.ReasonReady) })
			if data, err := os.ReadFile(filepath.Join(a.Pool, harness.PVName(kept), "data")); string(data) != "precious" {
				t.Errorf("data: %q, %v", data, err)
			}
			if err := harness.Missing(filepath.Join(a.Pool, harness.PVName(deleted))); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantIdle checks that the agent says that its disk is away, and deletes a claim. It returns the
// agent's queue of deletions as it was before.
func wantIdle(s *harness.Scene, a *harness.Agent, words string, deleted *corev1.PersistentVolumeClaim) harness.Queue {
	s.Helper()
	a.AwaitUnready(words)
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonNotReady) })
	if err := a.MetricIs(0, "kubevirt_hpp_pool_ready"); err != nil {
		s.Error(err)
	}
	deletions := s.Queue(a, harness.QueueVolumes)
	s.Delete(deleted)
	s.Released(harness.PVName(deleted))
	return deletions
}

// wantWait checks that nothing is done while the disk is away, neither for a new claim nor for the
// deleted one, which the agent tries to delete twice.
func wantWait(s *harness.Scene, a *harness.Agent, deleted *corev1.PersistentVolumeClaim,
	deletions harness.Queue) *corev1.PersistentVolumeClaim {
	s.Helper()
	look := func() string {
		if harness.Missing(a.Pool) == nil {
			return "none"
		}
		return s.Tree(a.Pool)
	}
	tree := look()
	waiting := s.Create(harness.Claim{Node: a.Node.Name})
	s.AwaitWarning(a, waiting.UID, harness.ReasonFailed, a.Node.Name, a.Pool)
	s.Until("disk away", deletions.TriedAgain, func() error {
		if now := look(); now != tree {
			return fmt.Errorf("changed in its place:\n%s\nbefore:\n%s", now, tree)
		}
		if s.IsGone(harness.PVName(deleted)) == nil {
			return fmt.Errorf("the PV of the deleted claim is gone, its data is not")
		}
		if !a.Alive() {
			return fmt.Errorf("the agent has ended")
		}
		return s.IsPending(waiting)
	})
	return waiting
}

// nodeEvent returns nil where an event with that reason is on the node.
func nodeEvent(s *harness.Scene, node harness.Node, reason string) error {
	events := s.Events(types.UID(node.Name)) // as kubelets name their nodes in events
	for _, e := range events {
		if e.Reason == reason && e.Host == node.Name {
			return nil
		}
	}
	return fmt.Errorf("no event %s on node %s: %v", reason, node.Name, events)
}

// Another disk in the place of the pool's is as wrong as none, also when it is a pool itself.
func TestAnotherDisk(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node, other := s.Node("01"), s.Node("02")
	s.Disk("ext4", diskSize).Mount(node.Pool)
	a := s.Agent(node, harness.Options{})
	pv := s.Bound(s.Create(harness.Claim{Node: node.Name}))
	id := a.Inspect().Pool.ID
	a.Stop()

	disk := s.Disk("xfs", diskSize)
	disk.Mount(other.Pool)
	b := s.Agent(other, harness.Options{})
	otherID := b.Inspect().Pool.ID
	b.Stop()
	s.Unmount(other.Pool)
	disk.Mount(node.Pool)
	before := s.Tree(node.Pool)
	a.Restart()
	a.AwaitUnready(id + `(.|\n)*` + otherID)
	a.AwaitUnready("pool") // the agent tried to open the pool when it started, and does for each answer
	s.Once("foreign pool", func() error {
		if now := s.Tree(node.Pool); now != before {
			return fmt.Errorf("changed:\n%s\nbefore:\n%s", now, before)
		}
		return nil
	})
	s.Unmount(node.Pool)
	a.AwaitReady()
	if err := harness.Exists(pv.Spec.HostPath.Path); err != nil {
		t.Error(err)
	}
}
