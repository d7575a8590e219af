package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The scheduler writes the claims of a pod one after the other, the controller-manager asks for each volume
// when it comes to it, and the node of a copy's source may write in between.
func TestEmptyBesideACopy(t *testing.T) {
	began := time.Now()
	type look struct {
		after  time.Duration
		copies []claims.Copy
		waits  bool
		moved  string
	}
	const here, there = "node-01", "node-02"
	at := func(node string, asked bool, since time.Duration) claims.Copy {
		return claims.Copy{UID: "s", Node: node, Asked: asked, Since: began.Add(since)}
	}
	left, other := at(there, true, 0), claims.Copy{UID: "o", Node: "node-03", Left: true}
	left.Left = true
	of := func(all ...claims.Copy) []claims.Copy { return all }
	for what, looks := range map[string][]look{
		"no copy":                  {{0, nil, false, ""}},
		"one that stays elsewhere": {{0, of(at(there, true, 0)), false, ""}},
		"one without a node": {{0, of(at("", false, 0)), true, ""}, {emptyWait / 2, of(at("", false, 0)), true, ""},
			{emptyWait, of(at("", false, 0)), false, ""}},
		"one that moves meanwhile": {{0, of(at(here, true, 0)), true, ""}, {time.Second, of(at(there, true, time.Second)), false, there}},
		"one that moves late":      {{0, of(at(here, false, 0)), true, ""}, {askedWithin - 1, of(at(there, true, 0)), false, there}},
		"one that moved before":    {{0, of(left), false, there}},
		"one is bound meanwhile":   {{0, of(at(here, true, 0)), true, ""}, {time.Second, nil, false, ""}},
		"one is asked for late": {{0, of(at(here, false, 0)), true, ""}, {emptyWait, of(at(here, false, 0)), true, ""},
			{time.Minute, of(at(here, false, 0)), true, ""}, {time.Minute, of(at(here, true, time.Minute)), true, ""},
			{time.Minute + emptyWait, of(at(there, true, time.Minute)), false, there}},
		"one is never asked for":   {{0, of(at(here, false, 0)), true, ""}, {askedWithin, of(at(here, false, 0)), false, ""}},
		"one never moves":          {{0, of(at(here, true, 0)), true, ""}, {movesWithin, of(at(here, true, 0)), false, ""}},
		"one did not move long":    {{0, of(at(here, true, -movesWithin)), false, ""}},
		"another one moves":        {{0, of(at(here, true, 0), other), true, ""}, {time.Second, of(at(there, true, 0), other), false, "node-03"}},
		"another one, late":        {{0, of(at(here, false, 0), other), true, ""}, {movesWithin, of(at(here, false, 0), other), false, "node-03"}},
		"it moves, there and back": {{0, of(left), false, there}, {time.Second, of(at(here, true, time.Second)), true, ""}, {2 * time.Second, of(left), false, there}},
	} {
		e := newEmpties()
		for i, l := range looks {
			got := e.judge("e", here, l.copies, began.Add(l.after))
			if got.waits != l.waits || got.moved != l.moved && (got.moved == "" || l.moved == "" || len(l.copies) < 2) {
				t.Errorf("%s, %d: %+v; want it to wait %v, moved to %q", what, i, got, l.waits, l.moved)
			}
			if got.moved != "" {
				e.gaveBack("e")
			}
		}
	}
}

// A claim is given back once for the copies that the scheduler knows to be elsewhere then, and not for ever
// for others.
func TestEmptyIsGivenBackOnce(t *testing.T) {
	now := time.Now()
	moved := func(e *empties, copies ...claims.Copy) bool {
		at := e.judge("e", "node-01", copies, now)
		if at.moved != "" {
			e.gaveBack("e")
		}
		return at.moved != ""
	}
	of := func(i int) claims.Copy {
		return claims.Copy{UID: types.UID(fmt.Sprint(i)), Node: "node-02", Left: true}
	}
	e := newEmpties()
	if !moved(e, of(0), of(1)) || moved(e, of(0), of(1)) || moved(e, of(1)) || !moved(e, of(1), of(2)) {
		t.Error("not once for each copy")
	}
	e = newEmpties()
	for i := range mostGivenBack + 1 {
		if moved(e, of(i)) != (i < mostGivenBack) {
			t.Errorf("time %d", i)
		}
	}
	if e.judge("another", "node-01", []claims.Copy{of(0)}, now).moved == "" {
		t.Error("another claim is not given back")
	}
}

// However often a claim that waits is judged, it is looked at again once in emptyAgain.
func TestEmptyIsLookedAtAgain(t *testing.T) {
	now, e, looks := time.Now(), newEmpties(), 0
	for range 10 {
		for range 10 {
			if e.judge("e", "node-01", []claims.Copy{{UID: "s", Node: "node-01", Since: now}}, now).look {
				looks++
			}
		}
		now = now.Add(emptyAgain / 2)
	}
	if looks != 5 {
		t.Errorf("looked at %d times, want 5", looks)
	}
}

// The claim loses its node, and its user reads why.
func TestEmptyIsGivenBack(t *testing.T) {
	c := newCopyTest(t, "csi", false)
	c.o.PVC.Spec.DataSourceRef = nil
	c.o.PVC.Annotations = map[string]string{contract.AnnSelectedNode: "node-01", contract.AnnStorageProvisioner: contract.CSIProvisioner}
	_, err := c.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), c.o.PVC, metav1.UpdateOptions{})
	c.check(err)
	c.should("alone", true)
	if !c.giveToCopy(t.Context(), c.o.PVC, "node-02") || c.chosen() != "" {
		t.Errorf("node %q", c.chosen())
	}
	if all := c.events(); !strings.Contains(all, "Normal Copying") || !strings.Contains(all, "node node-02") {
		t.Errorf("events %q", all)
	}
}
