package suite

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	// mostSteps bounds the changes to the disk in the life of one volume, from an absent pool on.
	mostSteps = 90
	// lanes share the steps: most of a cycle is waiting.
	lanes = 8
)

var killed = regexp.MustCompile(`killed before step (\S+)`)

// crash is one life of a volume on a new pool, in which the agent is killed right before its n-th change to the disk.
type crash struct {
	*harness.Scene
	a     *harness.Agent
	n     int
	claim *corev1.PersistentVolumeClaim
	name  string // of the directory
	twice bool   // the agent is killed once more while it recovers
}

// newCrash has a claim of the usual kind, or one of the CSI driver.
func newCrash(s *harness.Scene, node harness.Node, n int, csi bool) *crash {
	s.Helper()
	node.Pool = s.Path("pools", "crash-"+strconv.Itoa(n))
	if csi {
		return newCrashOf(s, node, n, local(node), harness.Claim{Class: harness.ClassCSI, Selected: node.Name})
	}
	c := newCrashOf(s, node, n, harness.Options{}, harness.Claim{Node: node.Name})
	c.twice = true
	return c
}

// newCrashOf has a claim and an agent of any kind.
func newCrashOf(s *harness.Scene, node harness.Node, n int, o harness.Options, claim harness.Claim) *crash {
	s.Helper()
	c := &crash{Scene: s, n: n}
	o.Program = built(s.TB, env.Faulty)
	c.a = s.Later(node, o)
	c.a.RestartWith("HPP_KILL_AT=" + strconv.Itoa(n))
	c.claim = s.Create(claim)
	c.name = harness.PVName(c.claim)
	return c
}

// died waits until the agent was killed, or done returns nil and no kill follows. The last steps change nothing that
// can be seen.
func (c *crash) died(what string, done func() error) bool {
	c.Helper()
	c.Eventually(fmt.Sprintf("kill %d: killed, or %s", c.n, what), func() error {
		if !c.a.Alive() {
			return nil
		}
		return done()
	})
	for end := time.Now().Add(300 * time.Millisecond); c.a.Alive() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return !c.a.Alive()
}

// recover starts the agent again after a kill, with twice once more after another kill while it recovers. It returns the
// step of the first.
func (c *crash) recover() (step string) {
	c.Helper()
	step = c.step()
	if c.twice {
		const opening = 6 // changes at most until the records are read
		c.a.RestartWith("HPP_KILL_AT=" + strconv.Itoa(opening+c.n%6))
		c.died("ready", c.a.Ready)
		c.a.Kill()
	}
	c.a.Restart()
	c.a.AwaitReady()
	return step
}

// step is where the agent was killed.
func (c *crash) step() string {
	c.Helper()
	m := killed.FindStringSubmatch(c.a.Log())
	if m == nil {
		c.Fatalf("kill %d: the agent ended and does not say that it was killed", c.n)
	}
	return m[1]
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
	c.Eventually(fmt.Sprintf("kill %d: empty pool", c.n), func() error { return empty(c.Scene, c.a) })
	for _, dir := range []string{"records", "trash"} {
		if left := c.Children(filepath.Join(c.a.Pool, ".hostpath-provisioner", dir)); len(left) > 0 {
			c.Errorf("kill %d: %s holds %q", c.n, dir, left)
		}
	}
}

// live goes through the whole life; where the agent is killed it is started again, and the life goes on. It returns
// the step of the kill, "" where the life was over before.
func (c *crash) live() (step string) {
	c.Helper()
	pv := harness.PVName(c.claim)
	if c.died("claim bound", func() error { return c.IsBound(c.claim) }) {
		step = c.recover()
		c.wantOne()
	} else if c.died("volume recorded", func() error { return c.a.MetricIs(1, "kubevirt_hpp_pool_volumes", `state="bound"`) }) {
		step = c.recover()
		c.wantOne()
	}
	c.Write(filepath.Join(c.a.Pool, c.name), "data", []byte("data"))
	c.Delete(c.claim)
	if c.died("all gone", func() error { return firstError(c.IsGone(pv), empty(c.Scene, c.a)) }) {
		step = c.recover()
	}
	c.wantNone()
	c.a.Kill() // a stop may meet the kill
	return step
}

func firstError(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// Wherever the agent is killed, what it left is finished or undone by the next start.
func TestCrash(t *testing.T) {
	t.Parallel()
	for lane := range lanes {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			crashes(t, 1+lane, lanes, newLife(false))
		})
	}
}

// A CSI claim takes the same steps on the disk, and another way to them, once the pool is open.
func TestCrashCSI(t *testing.T) {
	t.Parallel()
	const opening, lanes = 10, 4
	for lane := range lanes {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			crashes(t, 1+opening+lane, lanes, newLife(true))
		})
	}
}

func newLife(csi bool) func(*harness.Scene, harness.Node, int) *crash {
	return func(s *harness.Scene, node harness.Node, n int) *crash { return newCrash(s, node, n, csi) }
}

// crashes lives one life for the first step and for every stride-th after it.
func crashes(t *testing.T, first, stride int, begin func(*harness.Scene, harness.Node, int) *crash) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	for n := first; n <= mostSteps; n += stride {
		step := begin(s, node, n).live()
		if step == "" {
			t.Logf("the life of a volume is over before step %d", n)
			return
		}
		t.Logf("killed before step %d, %s", n, step)
	}
	t.Errorf("%d steps are not enough", mostSteps)
}
