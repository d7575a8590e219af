package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A claim of the class takes the same steps on the disk as any other, to a directory of another
// name.
func TestLocalPathCrash(t *testing.T) {
	t.Parallel()
	const opening = 10
	lanes(t, 1+opening, 4, func(t *testing.T, life *harness.Life, n int) {
		t.Helper()
		s := env.Scene(t)
		node := s.Node("01")
		class := localPathClass(s, "class-"+strconv.Itoa(n), nil)
		c := newCrashOf(s, node, life, n, localPathOptions(s, node.Pool), harness.Claim{Name: "data-" + strconv.Itoa(n), Class: class, Selected: node.Name})
		c.name = localPathDirectory(c.claim)
		c.live()
	})
}

// The agent is killed at each step while it adopts an existing PV, lets it grow, and deletes it.
// Each next start goes on, and no file is touched before the claim is deleted.
func TestLocalPathCrashAdopting(t *testing.T) {
	t.Parallel()
	const opening = 10 // what a kill in the opening leaves, TestCrash sees
	lanes(t, 1+opening, 4, adoptKilled)
}

func adoptKilled(t *testing.T, life *harness.Life, n int) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	o := localPathOptions(s, node.Pool)
	o.Program = built(t, env.Faulty)
	a := s.Later(node, o)
	h := newTheirs(s, a, otherProvisioners[1+n%2])
	expandable(s, h.pv.Spec.StorageClassName)
	c := &crash{Scene: s, a: a.Live(life, n), n: n, claim: h.claim}
	inode := h.find()
	adopted := func() error {
		if err := a.Ready(); err != nil {
			return err // before that the pool may be none
		}
		if err := isVolume(a, h.path, "bound", h.claim); err != nil {
			return err
		}
		return recordHasUID(a.Pool, filepath.Base(h.path), s.PV(h.pv.Name))
	}
	if c.a.Stage("adopted", "record.sync", adopted) {
		c.recover()
		s.Eventually(fmt.Sprintf("kill %d: adopted", n), adopted)
	}
	ask(s, h.claim, "25Mi")
	grown := func() error { return hasBytes(s, a, h.claim, h.path, 25<<20) }
	if c.a.Stage("grown", "record.sync", grown) {
		c.recover()
		s.Eventually(fmt.Sprintf("kill %d: grown", n), grown)
	}
	if got := h.find(); got != inode {
		t.Errorf("kill %d: inode %d, was %d", n, got, inode)
	}
	s.Delete(h.claim)
	if c.a.Stage("all gone", "purge.record", func() error { return firstError(s.IsGone(h.pv.Name), empty(s, a)) }) {
		c.recover()
	}
	c.wantNone()
	a.Kill() // a stop may meet the kill
}

// recordHasUID returns nil if the volume's record has the PV's UID, which it gets by a change of its
// own, right after the adoption.
func recordHasUID(pool, directory string, pv *corev1.PersistentVolume) error {
	text, err := os.ReadFile(recordPath(pool, directory))
	if err == nil && !strings.Contains(string(text), `"pvUID": "`+string(pv.UID)+`"`) {
		err = fmt.Errorf("the record has not the UID %s: %s", pv.UID, text)
	}
	return err
}
