package backends

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// A pool that belongs on other nodes is none of this node's for new claims: other nodes answer them.
func TestPoolOfOtherNodes(t *testing.T) {
	is := pooldir.Selected
	pools := classtest.PoolsOf(t, func(c *volume.Config) {
		if c.Name == "fast" {
			c.Selected = func() (pooldir.Selection, string) { return is, "not here" }
		}
	})
	b, err := New(Config{Node: named("node-01"), Pools: pools, CSIDriver: contract.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	sc := classtest.Class("csi")
	sc.Parameters = map[string]string{contract.StoragePool: "fast"}
	for selection, has := range map[pooldir.Selection]bool{pooldir.Selected: true, pooldir.NotSelected: false, pooldir.Unknown: true} {
		is = selection
		fit := b.Fit(sc, 1)
		if b.HasPool(sc) != has || fit.Fits != has || b.Refusal(sc) != "" {
			t.Errorf("selection %d: has it %t, %+v, refused %q", selection, b.HasPool(sc), fit, b.Refusal(sc))
		}
		if !has && !strings.Contains(fit.Lack, `no node has a pool "fast", which class "csi" names; node node-01 has ["legacy"]`) {
			t.Error(fit.Lack)
		}
	}
}
