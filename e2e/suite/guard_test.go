package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The pool's own things go away or change under a running agent. It writes nothing more, says so,
// and goes on by itself once they are back.
func TestPoolTakenApart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path, words string
		apart             func(path string) error
	}{
		{"no private directory", "", "not mounted", func(path string) error { return os.Rename(path, path+"-away") }},
		{"no identity", "pool.json", "not mounted", func(path string) error { return os.Rename(path, path+"-away") }},
		{"another identity", "pool.json", "another disk", func(path string) error {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+"-away", data, 0o600)
			}
			if err == nil {
				err = os.WriteFile(path, []byte(`{"version":1,"id":"00000000-0000-4000-8000-000000000000"}`), 0o600)
			}
			return err
		}},
		{"no records", "records", "records was removed", func(path string) error { return os.Rename(path, path+"-away") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, a := oneNode(t)
			kept, deleted := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
			path := filepath.Join(a.Pool, ".hostpath-provisioner", test.path)
			if err := test.apart(path); err != nil {
				t.Fatal(err)
			}
			a.AwaitUnready(test.words)
			if err := a.MetricIs(0, "kubevirt_hpp_pool_ready"); err != nil {
				t.Error(err)
			}
			deletions := s.Queue(a, harness.QueueVolumes)
			s.Delete(deleted)
			waiting := s.Create(harness.Claim{Node: a.Node.Name})
			s.AwaitWarning(a, waiting.UID, harness.ReasonFailed, a.Node.Name)
			s.Until("nothing done", deletions.TriedAgain, func() error {
				return errors.Join(intact(a, kept), intact(a, deleted), s.IsPending(waiting))
			})
			if err := os.Rename(path+"-away", path); err != nil {
				t.Fatal(err)
			}
			s.Bound(waiting)
			s.Gone(harness.PVName(deleted))
			a.AwaitReady()
			if err := intact(a, kept); err != nil {
				t.Errorf("%v; the pool has %v; the claim is %+v", err, s.Children(a.Pool), s.Read(kept))
			}
		})
	}
}

// Another pool's disk is mounted over a pool under a running agent.
func TestAnotherDiskMountedOver(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node, other := s.Node("01"), s.Node("02")
	disk := s.Disk("xfs", diskSize)
	disk.Mount(other.Pool)
	s.Agent(other, harness.Options{}).Stop()
	s.Unmount(other.Pool)
	s.Disk("ext4", diskSize).Mount(node.Pool)
	a := s.Agent(node, harness.Options{})
	kept, deleted := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
	disk.Mount(node.Pool)
	deletions := wantIdle(s, a, "another disk", deleted)
	waiting := wantWait(s, a, deleted, deletions)
	s.Unmount(node.Pool)
	s.Bound(waiting)
	s.Gone(harness.PVName(deleted))
	a.AwaitReady()
	if err := intact(a, kept); err != nil {
		t.Error(err)
	}
}

// A record that nobody can read stays where it is with its volume, and is told of; the other
// volumes go on.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	broken, good := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
	a.Stop()
	record := recordPath(a.Pool, harness.PVName(broken))
	was, err := os.ReadFile(record)
	if err == nil {
		err = os.WriteFile(record, was[:len(was)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.AwaitReady()
	if err := a.MetricIs(1, "kubevirt_hpp_pool_damaged_records"); err != nil {
		t.Error(err)
	}
	if got := a.Inspect().Damaged; len(got) != 1 || !strings.Contains(got[0], harness.PVName(broken)) {
		t.Errorf("inspect says %q", got)
	}
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonDamaged) })
	s.AwaitWarning(a, s.PV(harness.PVName(broken)).UID, harness.ReasonRefused, "damaged")
	s.Delete(broken)
	s.Delete(good)
	s.Gone(harness.PVName(good))
	s.Bound(s.Create(harness.Claim{Node: a.Node.Name}))
	s.Holds(a, "left alone", func() error {
		if now, err := os.ReadFile(record); len(now) != len(was)/2 {
			return fmt.Errorf("the record has %d bytes, want %d: %w", len(now), len(was)/2, err)
		}
		return intact(a, broken)
	})
	a.Stop()
	if err := os.WriteFile(record, was, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	s.Gone(harness.PVName(broken))
}
