package nodes

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const tooBig = "900Ti"

// The scheduler knows that no node can hold it.
func csiTooBig(t *testing.T, s *harness.Scene) {
	claim := s.Create(harness.Claim{Class: csiClass, Size: tooBig})
	p := pod{claim: claim.Name}.create(s)
	s.Eventually("the scheduler's word", func() error {
		return said(s, "involvedObject.uid", string(p.UID), "FailedScheduling", "not have enough free storage", p.CreationTimestamp.Time)
	})
	if err := s.IsPending(claim); err != nil {
		t.Error(err)
	}
}

// A node that was chosen all the same refuses with the numbers, and gives the claim back.
func (f csiForm) csiNoSpace(_ *testing.T, s *harness.Scene) {
	begin := time.Now()
	claim := s.Create(harness.Claim{Class: csiClass, Size: tooBig})
	_, err := kubectl("", "-n", s.Namespace, "annotate", "pvc", claim.Name, harness.AnnSelectedNode+"="+one.Name)
	must(s, "choose a node", err)
	s.Eventually("word to the claim", func() error {
		return said(s, "involvedObject.name", claim.Name, harness.ReasonFailed, f.noSpace, begin)
	})
	s.Eventually("given back", func() error {
		if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("it is on %s", on)
		}
		return s.IsPending(claim)
	})
}

// Of two nodes that are alike, one has allocated most of its space: the scheduler knows, and
// chooses the other.
func csiFull(t *testing.T, s *harness.Scene) {
	free := func() (bytes [2]int64) {
		s.Helper()
		found, err := capacities(s)
		must(s, "capacities", err)
		for i, n := range local.Nodes() {
			bytes[i] = found[n.Name].MaximumVolumeSize.Value()
		}
		return bytes
	}
	// A pod is ready a moment before its node's object is there.
	s.Eventually("an object for each node", func() error { _, err := capacities(s); return err })
	before := free()
	bytes := min(before[0], before[1]) * 7 / 10
	most := resource.NewQuantity(bytes, resource.BinarySI).String()
	// The nodes share this machine's disk: what other programs write changes both objects.
	less := func(now [2]int64) bool { return now[1]-now[0] > bytes/2 }
	big := s.Create(harness.Claim{Class: csiClass, Size: most})
	p := pod{claim: big.Name, hostname: one.Hostname, script: "true"}.run(s)
	s.Eventually("the object of "+one.Name+" shrinks", func() error {
		if now := free(); !less(now) {
			return fmt.Errorf("%v, before a claim for %s they were %v", now, most, before)
		}
		return nil
	})
	next := s.Create(harness.Claim{Class: csiClass, Size: most})
	if at := (pod{claim: next.Name, script: "true"}).run(s).Spec.NodeName; at != other.Name {
		t.Errorf("the next pod is on %s, want %s", at, other.Name)
	}
	end(s, p)
	s.Delete(big)
	s.Gone(harness.PVName(big))
	s.Eventually("the object grows again", func() error {
		if now := free(); less(now) {
			return fmt.Errorf("%v, at first they were %v", now, before)
		}
		return nil
	})
}
