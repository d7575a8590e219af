package suite

import (
	"fmt"
	"strconv"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A claim of the class takes the same steps on the disk as any other, to a directory of another name.
func TestLocalPathCrash(t *testing.T) {
	t.Parallel()
	const opening, lanes = 10, 4
	for lane := range lanes {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			crashes(t, 1+opening+lane, lanes, func(s *harness.Scene, node harness.Node, n int) *crash {
				node.Pool = s.Path("pools", "crash-"+strconv.Itoa(n))
				class := localPathClass(s, "class-"+strconv.Itoa(n), nil)
				c := newCrashOf(s, node, n, localPathOptions(s, node.Pool), harness.Claim{Name: "data-" + strconv.Itoa(n), Class: class, Selected: node.Name})
				c.name = localPathDirectory(c.claim)
				return c
			})
		})
	}
}

// The agent is killed at each step while it adopts an existing PV, lets it grow, and deletes it. Each next start goes on, and
// no file is touched before the claim is deleted.
func TestLocalPathCrashAdopting(t *testing.T) {
	t.Parallel()
	const opening, lanes = 10, 4 // what a kill in the opening leaves, TestCrash sees
	for lane := range lanes {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			for n := 1 + opening + lane; ; n += lanes {
				step := adoptKilled(t, n)
				if step == "" {
					return
				}
				t.Logf("killed before step %d, %s", n, step)
				if n > mostSteps {
					t.Fatalf("%d steps are not enough", mostSteps)
				}
			}
		})
	}
}

func adoptKilled(t *testing.T, n int) (step string) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	o := localPathOptions(s, node.Pool)
	o.Program = built(t, env.Faulty)
	a := s.Later(node, o)
	h := newTheirs(s, a, otherProvisioners[1+n%2])
	expandable(s, h.pv.Spec.StorageClassName)
	c := &crash{Scene: s, a: a, n: n, claim: h.claim}
	a.RestartWith("HPP_KILL_AT=" + strconv.Itoa(n))
	inode := h.find()
	adopted := func() error {
		if err := a.Ready(); err != nil {
			return err // before that the pool may be none
		}
		return isVolume(a, h.path, "bound", h.claim)
	}
	if c.died("adopted", adopted) {
		step = c.recover()
	}
	s.Eventually(fmt.Sprintf("kill %d: adopted", n), adopted)
	ask(s, h.claim, "25Mi")
	if c.died("grown", func() error { return hasBytes(s, a, h.claim, h.path, 25<<20) }) {
		step = c.recover()
	}
	s.Eventually(fmt.Sprintf("kill %d: grown", n), func() error { return hasBytes(s, a, h.claim, h.path, 25<<20) })
	if got := h.find(); got != inode {
		t.Errorf("kill %d: inode %d, was %d", n, got, inode)
	}
	s.Delete(h.claim)
	if c.died("all gone", func() error { return firstError(s.IsGone(h.pv.Name), empty(s, a)) }) {
		step = c.recover()
	}
	c.wantNone()
	a.Kill() // a stop may meet the kill
	return step
}
