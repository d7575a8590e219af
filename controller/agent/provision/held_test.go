package provision

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// The pool of a class that only this agent serves is held by another agent of the node: a claim gets
// an event after two minutes. A claim that the other agent serves is bound long before.
func TestPoolOfAnAgentThatServesOtherClasses(t *testing.T) {
	c := examiner(t)
	path := filepath.Join(t.TempDir(), "pool")
	other, err := volume.New(volume.Config{Name: "legacy", Path: path, Holder: Holder("node-01", "pod-of-legacy")})
	if err == nil {
		err = other.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	own, err := volume.New(volume.Config{Name: "legacy", Path: path, Holder: Holder("node-01", "pod-of-local-path")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	pools, err := volume.NewPools(own)
	if err != nil {
		t.Fatal(err)
	}
	pools.Open()
	dialects, err := contract.ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	b := backends.HostPath(nil, backends.Served{Dialect: dialects[0], Pools: pools.All()})
	claim, sc := classtest.Claim(testUID, "wait", "", contract.AnnSelectedNode, "node-01"), classtest.Class("wait")
	sc.Provisioner = contract.LocalPathProvisioner
	synctest.Test(t, func(t *testing.T) {
		for minute, silent := range []bool{true, true, false, false} {
			if r := c.refusalOf(t.Context(), b, claim, sc); r == nil || r.silent != silent {
				t.Errorf("after %d minutes: %+v, want silent %v", minute, r, silent)
			}
			time.Sleep(time.Minute)
		}
	})
}
