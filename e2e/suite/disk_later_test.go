package suite

import (
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A disk that is mounted after the agent's first start is taken into use, because nothing was kept
// below; and once it was, the pool waits for it.
func TestDiskMountedAfterTheStart(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Agent(node, harness.Options{})
	below := a.Inspect().Pool.ID
	disk := s.Disk("ext4", diskSize)
	disk.Mount(node.Pool)
	s.Eventually("event on the node", func() error { return nodeEvent(s, node, "PoolMoved") })
	pv := s.Bound(s.Create(harness.Claim{Node: node.Name}))
	if id := a.Inspect().Pool.ID; id == below || pv.Annotations[harness.AnnPool] != id {
		t.Errorf("the pool is %s, was %s below, and its PV names %s", id, below, pv.Annotations[harness.AnnPool])
	}

	s.Unmount(node.Pool)
	a.AwaitUnready("not mounted")
	for _, gone := range []string{filepath.Join(node.Pool, ".hostpath-provisioner", "pool.json"), pv.Spec.HostPath.Path} {
		if err := harness.Missing(gone); err != nil {
			t.Errorf("on the disk below: %v", err)
		}
	}
	disk.Mount(node.Pool)
	a.AwaitReady()
	if err := harness.Exists(pv.Spec.HostPath.Path); err != nil {
		t.Error(err)
	}
}
