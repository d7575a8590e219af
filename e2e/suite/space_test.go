package suite

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// diskSize of the small disks, in MiB.
const diskSize = 320

// smallNode is a node whose pool is a small disk, and its agent.
func smallNode(s *harness.Scene, suffix string) *harness.Agent {
	s.Helper()
	node := s.Node(suffix)
	s.Disk("ext4", diskSize).Mount(node.Pool)
	return s.Agent(node, harness.Options{})
}

// metric reads one that must be there, as whole bytes.
func metric(s *harness.Scene, a *harness.Agent, name string, labels ...string) int64 {
	s.Helper()
	v, err := a.Metric(name, labels...)
	if err != nil {
		s.Fatal(err)
	}
	return int64(v)
}

func bytes(n int64) string { return fmt.Sprint(n) }

// half is more than half of what the pool has available, in bytes: two do not fit.
func half(s *harness.Scene, a *harness.Agent) int64 {
	s.Helper()
	return metric(s, a, "kubevirt_hpp_pool_available_bytes")*6/10 + 1
}

// wantNoSpace waits for the one refusal, whose numbers are those of the pool at this moment. The
// filesystem itself may write some blocks meanwhile, so what is available may differ a little.
func wantNoSpace(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, wanted int64) {
	s.Helper()
	number := func(word string, n int64) string { return fmt.Sprintf(`\b%s %d\b`, word, n) }
	total := number("total", metric(s, a, "kubevirt_hpp_pool_total_bytes"))
	warned := func() error {
		return s.Warned(claim.UID, harness.ReasonFailed, a.Node.Name, number("requested", wanted), total)
	}
	s.Eventually("warning", warned)
	s.Idle(a) // it has no space to catch up
	s.Once("one warning", warned)
	const blocks = 64 << 10
	s.Eventually("available bytes", func() error {
		want := metric(s, a, "kubevirt_hpp_pool_available_bytes")
		for _, e := range s.Events(claim.UID) {
			if said := regexp.MustCompile(`\bavailable (\d+)`).FindStringSubmatch(e.Message); said != nil {
				n, err := strconv.ParseInt(said[1], 10, 64)
				if err == nil && max(n-want, want-n) > blocks {
					err = fmt.Errorf("%q; want %d available", e.Message, want)
				}
				return err
			}
		}
		return errors.New("no event has them")
	})
	if err := s.IsPending(claim); err != nil {
		s.Error(err)
	}
}

func TestNoSpaceImmediate(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	size := half(s, a)
	first := s.Create(harness.Claim{Node: a.Node.Name, Size: bytes(size)})
	s.Bound(first)
	// The allocation alone does not make room for the second: the data has to go too.
	s.Write(filepath.Join(a.Pool, harness.PVName(first)), "data", make([]byte, size-1<<20))

	const noSpace = `reason="space"`
	refused := metric(s, a, "kubevirt_hpp_refusals_total", noSpace)
	second := s.Create(harness.Claim{Node: a.Node.Name, Size: bytes(size)})
	wantNoSpace(s, a, second, size)
	again := func() error {
		if now := metric(s, a, "kubevirt_hpp_refusals_total", noSpace); now < refused+2 {
			return fmt.Errorf("%d refusals since, want 2", now-refused)
		}
		return nil
	}
	s.Until("one warning, over several tries", again, func() error { return s.Warned(second.UID, harness.ReasonFailed) })
	wantTree(s, a.Pool, harness.PVName(first))

	s.Delete(first)
	s.Bound(second)
	wantTree(s, a.Pool, harness.PVName(second))
}

// A claim that can never fit says so too: the whole disk is not enough.
func TestNoSpaceEver(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	claim := s.Create(harness.Claim{Node: a.Node.Name, Size: "1Ti"})
	wantNoSpace(s, a, claim, 1<<40)
	wantTree(s, a.Pool)
}

func TestNoSpaceDelayed(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	full, roomy := smallNode(s, "01"), s.Agent(s.Node("02"), harness.Options{})
	size := half(s, full)
	s.Bound(s.Create(harness.Claim{Node: full.Node.Name, Size: bytes(size)}))

	s.Cordon(roomy.Node, true) // the scheduler has no other choice
	claim := s.Create(harness.Claim{Class: harness.ClassDelayed, Size: bytes(size)})
	pod := s.Pod(claim.Name, full.Node.Hostname, roomy.Node.Hostname)
	s.Eventually("refusal", func() error { return refusedForSpace(s, claim, size) })
	s.Eventually("scheduler asked again", func() error {
		if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("the claim is still for %s", on)
		}
		return nil
	})
	s.Cordon(full.Node, true)
	s.Cordon(roomy.Node, false)
	if node := s.Scheduled(pod); node != roomy.Node.Name {
		t.Errorf("pod on %s, want %s", node, roomy.Node.Name)
	}
	s.Bound(claim)
	wantTree(s, roomy.Pool, harness.PVName(claim))
}

// refusedForSpace returns nil where an event names the size as too much.
func refusedForSpace(s *harness.Scene, claim *corev1.PersistentVolumeClaim, size int64) error {
	for _, e := range s.Events(claim.UID) {
		if e.Ours() && e.Reason == harness.ReasonFailed && e.Type == corev1.EventTypeWarning && names(e.Message, size) {
			return nil
		}
	}
	return fmt.Errorf("no event names %d bytes: %v", size, s.Events(claim.UID))
}

// The annotation is the user's choice of the node: the claim waits for it and is not given back to
// the scheduler.
func TestNoSpaceDelayedWithAnnotation(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	size := half(s, a)
	first := s.Create(harness.Claim{Node: a.Node.Name, Size: bytes(size)})
	s.Bound(first)
	second := s.Create(harness.Claim{Class: harness.ClassDelayed, Node: a.Node.Name, Size: bytes(size)})
	wantNoSpace(s, a, second, size)
	wantUnwritten(s, second)
	s.Delete(first)
	s.Bound(second)
}

// What is allocated on a pool never exceeds it, in any order of claims.
func TestSpaceOfManyAtOnce(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	size := metric(s, a, "kubevirt_hpp_pool_available_bytes")/5 + 1 // four fit
	var claims []*corev1.PersistentVolumeClaim
	for range 12 {
		claims = append(claims, s.Create(harness.Claim{Node: a.Node.Name, Size: bytes(size)}))
	}
	bound := func() (n int) {
		for _, c := range claims {
			if s.IsBound(c) == nil {
				n++
			}
		}
		return n
	}
	four := func() error {
		if n := bound(); n != 4 {
			return fmt.Errorf("%d claims are bound, want 4", n)
		}
		return nil
	}
	s.Eventually("four claims, and a word to each of the others", func() error {
		for _, c := range claims {
			if err := s.Warned(c.UID, harness.ReasonFailed); err != nil && s.IsBound(c) != nil {
				return err
			}
		}
		return four()
	})
	s.Idle(a)
	s.Once("four claims and no more", four)
	if err := a.MetricIs(float64(4*size), "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}
}

// A flag sets the capacity of PVs to the size that df shows. What is allocated stays what was asked
// for.
func TestWholeDisk(t *testing.T) {
	s := env.Scene(t)
	node := s.Node("01")
	s.Disk("ext4", diskSize).Mount(node.Pool)
	a := s.Agent(node, harness.Options{
		CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, node.Pool), Flags: []string{"--capacity=filesystem"},
	})
	total := metric(s, a, "kubevirt_hpp_pool_total_bytes")
	for _, claim := range []*corev1.PersistentVolumeClaim{
		s.Create(harness.Claim{Node: node.Name, Size: "8Mi"}),
		s.Create(harness.Claim{Class: harness.ClassCSI, Selected: node.Name, Size: "8Mi"}),
	} {
		pv := s.Bound(claim)
		if got, want := pv.Spec.Capacity.Storage().Value(), total-total%(1<<20); got != want {
			t.Errorf("the PV %s shows %d bytes, want %d", pv.Name, got, want)
		}
		if v := a.Volume(pv.Name); v.Bytes != 8<<20 {
			t.Errorf("allocated %d bytes, want 8Mi", v.Bytes)
		}
	}
}
