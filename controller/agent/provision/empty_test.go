package provision

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The scheduler writes the claims of a pod one after the other, and the node of a copy's source may write
// in between.
func TestEmptyBesideACopy(t *testing.T) {
	now := time.Now()
	type look struct {
		after  time.Duration
		copies []claims.Copy
		wait   time.Duration
		moved  string
	}
	none, here, there, left := claims.Copy{UID: "s"}, claims.Copy{UID: "s", Node: "node-01"}, claims.Copy{UID: "s", Node: "node-02"}, claims.Copy{UID: "s", Node: "node-02", Left: true}
	bound := claims.Copy{UID: "b", Node: "node-02", Left: true, Bound: true}
	for what, looks := range map[string][]look{
		"no copy":                  {{0, nil, 0, ""}},
		"one that stays elsewhere": {{0, []claims.Copy{there}, 0, ""}},
		"one without a node":       {{0, []claims.Copy{none}, emptyWait, ""}, {time.Second, []claims.Copy{none}, emptyWait - time.Second, ""}, {emptyWait, []claims.Copy{none}, 0, ""}},
		"one that moves meanwhile": {{0, []claims.Copy{here}, emptyWait, ""}, {time.Second, []claims.Copy{there}, 0, "node-02"}},
		"one that moves late":      {{0, []claims.Copy{here}, emptyWait, ""}, {emptyWait, []claims.Copy{there}, 0, "node-02"}},
		"one that moved before":    {{0, []claims.Copy{left}, 0, "node-02"}},
		"one is bound meanwhile":   {{0, []claims.Copy{here}, emptyWait, ""}, {time.Second, nil, 0, ""}},
		"one left and is bound":    {{0, []claims.Copy{bound}, 0, "node-02"}, {time.Second, []claims.Copy{bound}, 0, "node-02"}},
		"another one moves":        {{0, []claims.Copy{here, {UID: "o", Node: "node-03"}}, emptyWait, ""}, {emptyWait, []claims.Copy{here, {UID: "o", Node: "node-04"}}, 0, ""}},
	} {
		e := newEmpties()
		for i, l := range looks {
			if wait, moved := e.judge("e", "node-01", l.copies, now.Add(l.after)); wait != l.wait || moved != l.moved {
				t.Errorf("%s, %d: waits %v, moved to %q; want %v, %q", what, i, wait, moved, l.wait, l.moved)
			}
		}
	}
	e := newEmpties()
	for i := range mostGivenBack + 1 {
		if _, moved := e.judge("e", "node-01", []claims.Copy{left}, now); (moved != "") != (i < mostGivenBack) {
			t.Errorf("time %d: moved to %q", i, moved)
		}
		e.gaveBack("e")
	}
	// The scheduler knows where a bound copy is: the claim is given back for it once.
	e = newEmpties()
	for i, want := range []string{"node-02", "", ""} {
		if _, moved := e.judge("e", "node-01", []claims.Copy{bound}, now); moved != want {
			t.Errorf("bound, time %d: moved to %q, want %q", i, moved, want)
		} else if moved != "" {
			e.gaveBack("e")
		}
	}
	if _, moved := e.judge(types.UID("another"), "node-01", []claims.Copy{left}, now); moved == "" {
		t.Error("another claim is not given back")
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
