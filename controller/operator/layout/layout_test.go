package layout

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

func TestRetain(t *testing.T) {
	had := poolrecord.Offer{Pools: []poolrecord.Pool{{Name: "legacy", Path: "/a/csi"}, {Name: "moved", Path: "/b/csi", Mount: "/b/csi"}, {Name: "unused", Path: "/c/csi"}}, PVDir: "/a", Prefix: true}
	l := Layout{Offer: poolrecord.Offer{Pools: []poolrecord.Pool{{Name: "local", Path: "/a/csi"}, {Name: "moved", Path: "/d/csi"}}}}
	if !l.Lacks(had) || had.Lacks(had) {
		t.Error("lacks")
	}
	l.retain(had, usage{pools: map[string]int{"legacy": 2, "moved": 1}, hostPath: 3})
	if len(l.Pools) != 2 || l.Pools[0] != had.Pools[0] || l.Pools[1] != had.Pools[1] || l.PVDir != "/a" || !l.Prefix || len(l.Retained) != 3 {
		t.Errorf("%+v", l)
	}
	dirs := Layout{Offer: poolrecord.Offer{Pools: []poolrecord.Pool{{Name: "other", Path: "/e/csi"}}, PVDir: "/a"}}.directories()
	if len(dirs) != 2 || dirs[1].Path != "/a" {
		t.Errorf("directories %v", dirs)
	}
}
