package suite

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// It does not take another word of the user when space comes back, nor does a claim that goes
// meanwhile leave anything.
func TestGrowWhenSpaceComesBack(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	size := half(s, a)
	first := s.Create(harness.Claim{Node: a.Node.Name, Size: bytes(size)})
	second, gone := s.Create(harness.Claim{Node: a.Node.Name}), s.Create(harness.Claim{Node: a.Node.Name})
	for _, c := range []*corev1.PersistentVolumeClaim{first, second, gone} {
		s.Bound(c)
	}
	s.Write(filepath.Join(a.Pool, harness.PVName(first)), "data", make([]byte, size-1<<20))
	ask(s, second, bytes(size))
	ask(s, gone, bytes(size))
	for _, c := range []*corev1.PersistentVolumeClaim{second, gone} {
		s.Eventually("refusal", func() error {
			return saysWhy(s, c, corev1.PersistentVolumeClaimControllerResizeInfeasible)
		})
	}
	s.Delete(gone)
	s.Gone(harness.PVName(gone))
	s.Delete(first)
	wantSize(s, a, second, bytes(size)) // sooner than it is tried without a reason
	wantTree(s, a.Pool, harness.PVName(second))
	warnedThenResized(s, second)
}

// A disk that is away is no question of space, and no reason to ask for less.
func TestGrowWhenThePoolIsBack(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	disk := s.Disk("ext4", diskSize)
	disk.Mount(node.Pool)
	a := s.Agent(node, harness.Options{})
	claim := s.Create(harness.Claim{Node: node.Name})
	s.Bound(claim)
	s.Unmount(node.Pool)
	ask(s, claim, "20Mi")
	s.Eventually("refusal", func() error { return saysWhy(s, claim, "", "not ready", node.Name) })
	disk.Mount(node.Pool)
	wantSize(s, a, claim, "20Mi")
	warnedThenResized(s, claim, "not ready")
}

// Whatever was done when an agent ended, the next start does the rest. In each row the volume has
// 20Mi already, and claim and PV say less, as an agent leaves them that is killed before it writes.
func TestGrowIsResumed(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	rows := []struct{ name, asked, pv string }{
		{"before the PV", "20Mi", "10Mi"},
		{"before the claim", "20Mi", "20Mi"},
		{"less is asked for meanwhile", "15Mi", "10Mi"},
	}
	claims := make([]*corev1.PersistentVolumeClaim, len(rows))
	for i := range rows {
		claims[i] = s.Create(harness.Claim{Node: a.Node.Name})
	}
	for _, claim := range claims {
		s.Bound(claim)
		ask(s, claim, "20Mi")
	}
	for _, claim := range claims {
		wantSize(s, a, claim, "20Mi")
	}
	a.Stop()
	for i, row := range rows {
		s.PatchPV(harness.PVName(claims[i]), fmt.Sprintf(`{"spec":{"capacity":{"storage":%q}}}`, row.pv))
		if err := patchClaim(s, claims[i], `{"status":{"capacity":{"storage":"10Mi"},"allocatedResources":null}}`, "status"); err != nil {
			t.Fatal(err)
		}
		if row.asked != "20Mi" {
			ask(s, claims[i], row.asked)
		}
	}
	a.Restart()
	for i, row := range rows {
		s.Eventually(row.name, func() error { return hasSize(s, a, claims[i], "20Mi") })
	}
	if err := a.MetricIs(3*20<<20, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}
}

// An agent that is killed at any change that growing makes on the disk.
func TestGrowKilled(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Later(s.Node("01"), harness.Options{Program: built(t, env.Faulty)})
	born := a.Live(new(harness.Life), 0)
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	born.Stage("claim bound", "record.sync", func() error { return s.IsBound(claim) })
	recorded(s, a.Pool, claim) // or the changes for that are counted below, as those of growing
	life, size := new(harness.Life), int64(10<<20)
	more := func() {
		a.Kill()
		size += 1 << 20
		ask(s, claim, bytes(size))
	}
	grown := func() {
		a.Restart()
		wantSize(s, a, claim, bytes(size))
	}
	for n := 0; n <= life.Steps(); n++ {
		more()
		if a.Live(life, n).Stage("grown", "record.sync", func() error { return hasSize(s, a, claim, bytes(size)) }) {
			grown()
		}
	}
	// The agent records the claim's new request, too, before or after it grows the volume. So no number
	// stands for a change: the kills above may all miss this one.
	more()
	a.RestartWith("HPP_KILL_AT=expand.record")
	awaitKilled(s, a)
	if step := a.LastKill(); step != "expand.record" {
		t.Errorf("killed before %s", step)
	}
	grown()
	t.Logf("growing has %d changes to the disk", life.Steps())
}

// The PVs of older provisioners say the whole disk's size, which is never taken back; what is
// allocated grows.
func TestGrowAdopted(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	s.Bound(claim)
	a.Stop()
	s.PatchPV(harness.PVName(claim), `{"spec":{"capacity":{"storage":"100Gi"}}}`)
	if err := patchClaim(s, claim, `{"status":{"capacity":{"storage":"100Gi"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.AwaitReady()
	ask(s, claim, "20Mi")
	s.Eventually("allocation", func() error {
		if v := a.Volume(harness.PVName(claim)); v.Bytes != 20<<20 {
			return fmt.Errorf("the volume has %d bytes", v.Bytes)
		}
		return resized(s, claim, 1)
	})
	if pv, now := s.PV(harness.PVName(claim)), s.Read(claim); pv.Spec.Capacity.Storage().String() != "100Gi" ||
		now.Status.Capacity.Storage().String() != "100Gi" {
		t.Errorf("PV %v, claim %v", pv.Spec.Capacity, now.Status.Capacity)
	}
}

// A claim that goes while it grows takes everything with it.
func TestGrowAndGo(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	var claims []*corev1.PersistentVolumeClaim
	for range 4 {
		claims = append(claims, s.Create(harness.Claim{Node: a.Node.Name}))
	}
	for _, c := range claims {
		s.Bound(c)
	}
	for i, c := range claims {
		ask(s, c, fmt.Sprintf("%dMi", 20+i))
		s.Delete(c)
	}
	for _, c := range claims {
		s.Gone(harness.PVName(c))
	}
	s.Eventually("empty pool", func() error { return empty(s, a) })
}
