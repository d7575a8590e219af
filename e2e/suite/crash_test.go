package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// crash is one life of a volume on a new pool, in which the agent is killed right before its n-th
// change to the disk.
type crash struct {
	*harness.Scene
	a     *harness.Mortal
	n     int
	claim *corev1.PersistentVolumeClaim
	name  string // of the directory
	twice bool   // the agent is killed once more while it recovers
}

// newCrash has a claim of the usual kind, or one of the CSI driver.
func newCrash(s *harness.Scene, node harness.Node, life *harness.Life, n int, csi bool) *crash {
	s.Helper()
	node.Pool = s.Path("pools", "crash-"+strconv.Itoa(n))
	if csi {
		return newCrashOf(s, node, life, n, local(node), harness.Claim{Class: harness.ClassCSI, Selected: node.Name})
	}
	c := newCrashOf(s, node, life, n, harness.Options{}, harness.Claim{Node: node.Name})
	c.twice = true
	return c
}

// newCrashOf has a claim and an agent of any kind.
func newCrashOf(s *harness.Scene, node harness.Node, life *harness.Life, n int, o harness.Options, claim harness.Claim) *crash {
	s.Helper()
	o.Program = built(s.TB, env.Faulty)
	c := &crash{Scene: s, n: n, a: s.Later(node, o).Live(life, n)}
	c.claim = s.Create(claim)
	c.name = harness.PVName(c.claim)
	return c
}

// recover starts the agent again after a kill, with twice once more after another kill while it
// recovers.
func (c *crash) recover() {
	c.Helper()
	if c.twice {
		const opening = 6 // changes at most until the records are read
		c.a.RestartWith("HPP_KILL_AT=" + strconv.Itoa(opening+c.n%6))
		c.Eventually(fmt.Sprintf("kill %d: killed again, or ready", c.n), func() error {
			if !c.a.Alive() {
				return nil
			}
			return c.a.Ready()
		})
		c.a.Kill()
	}
	c.a.Restart()
	c.a.AwaitReady()
}

// wantOne checks that the bound claim has one directory, one record and nothing half made.
func (c *crash) wantOne() {
	c.Helper()
	c.Bound(c.claim)
	wantTree(c.Scene, c.a.Pool, c.name)
	c.Eventually(fmt.Sprintf("kill %d: one bound volume", c.n), func() error {
		r := c.a.Inspect()
		if len(r.Volumes) != 1 || r.Volumes[0].State != "bound" || r.Volumes[0].Missing || len(r.Trash)+len(r.Damaged) > 0 {
			return fmt.Errorf("%+v", r)
		}
		return c.a.MetricIs(10<<20, "kubevirt_hpp_pool_allocated_bytes")
	})
	if staged := c.Children(filepath.Join(c.a.Pool, ".hostpath-provisioner", "staging")); len(staged) > 0 {
		c.Errorf("kill %d: staging holds %q", c.n, staged)
	}
}

// wantNone waits until nothing of the deleted claim is left, in the cluster and on the disk.
func (c *crash) wantNone() {
	c.Helper()
	c.Gone(harness.PVName(c.claim))
	c.Eventually(fmt.Sprintf("kill %d: empty pool", c.n), func() error { return empty(c.Scene, c.a.Agent) })
	for _, dir := range []string{"records", "trash"} {
		if left := c.Children(filepath.Join(c.a.Pool, ".hostpath-provisioner", dir)); len(left) > 0 {
			c.Errorf("kill %d: %s holds %q", c.n, dir, left)
		}
	}
}

// live goes through the whole life; where the agent is killed it is started again, and the life
// goes on.
func (c *crash) live() {
	c.Helper()
	pv := harness.PVName(c.claim)
	if c.a.Stage("claim bound and recorded", "record.sync", func() error { return c.IsBound(c.claim) }) {
		c.recover()
		c.wantOne()
	}
	c.Write(filepath.Join(c.a.Pool, c.name), "data", []byte("data"))
	c.Delete(c.claim)
	if c.a.Stage("all gone", "purge.record", func() error { return firstError(c.IsGone(pv), empty(c.Scene, c.a.Agent)) }) {
		c.recover()
	}
	c.wantNone()
	c.a.Kill() // a stop may meet the kill
}

func firstError(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// lanes goes through a life once to count the changes to the disk, and then once for each from the
// first on, with the agent killed before it. Most of a life is waiting, so several run side by
// side.
func lanes(t *testing.T, first, count int, live func(t *testing.T, life *harness.Life, n int)) {
	t.Helper()
	life := new(harness.Life)
	live(t, life, 0)
	if life.Steps() < first {
		t.Fatalf("a life has %d changes to the disk, want more than %d", life.Steps(), first)
	}
	t.Logf("a life has %d changes to the disk", life.Steps())
	for lane := range count {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			for n := first + lane; n <= life.Steps(); n += count {
				live(t, life, n)
			}
		})
	}
}

// Wherever the agent is killed, what it left is finished or undone by the next start.
func TestCrash(t *testing.T) {
	t.Parallel()
	lanes(t, 1, 8, func(t *testing.T, life *harness.Life, n int) {
		t.Helper()
		s := env.Scene(t)
		newCrash(s, s.Node("01"), life, n, false).live()
	})
}

// A CSI claim takes the same steps on the disk, and another way to them, once the pool is open.
func TestCrashCSI(t *testing.T) {
	t.Parallel()
	const opening = 10
	lanes(t, 1+opening, 4, func(t *testing.T, life *harness.Life, n int) {
		t.Helper()
		s := env.Scene(t)
		newCrash(s, s.Node("01"), life, n, true).live()
	})
}
