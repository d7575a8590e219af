package backends

import (
	"math"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestFit(t *testing.T) {
	b := backendsOf(t)
	for name, row := range map[string]struct {
		class      string
		parameters map[string]string
		bytes      int64
		has, fits  bool
		lack       string // words; "" for no message
	}{
		"fits":              {"csi", map[string]string{contract.StoragePool: "fast"}, 1 << 20, true, true, ""},
		"default pool":      {"csi", nil, 1 << 20, true, true, ""},
		"too large":         {"csi", nil, math.MaxInt64, true, false, ""},
		"pool of no node":   {"csi", map[string]string{contract.StoragePool: "fats"}, 1, false, false, `no node has a pool "fats", which class "csi" names; node node-01 has ["legacy" "fast"]: use a class of one of these`},
		"required, no pool": {"csi", map[string]string{contract.StoragePool: "fats", "quota": "required"}, 1, false, false, `a pool "fats" that enforces the quotas which the class requires`},
		"required":          {"csi", map[string]string{"quota": "required"}, 1, true, false, `no node can hold a volume in pool legacy to its size, which class "csi" requires`},
		"unknown parameter": {"csi", map[string]string{"pool": "fast"}, 1, true, false, ""},
		"hostPath":          {"wait", nil, 1, true, false, ""},
	} {
		sc := classtest.Class(row.class)
		sc.Parameters = row.parameters
		if got := b.HasPool(sc); got != row.has {
			t.Errorf("%s: has the pool: %v", name, got)
		}
		if row.class != "csi" {
			continue
		}
		got := b.Fit(sc, row.bytes)
		if got.Fits != row.fits || got.Pool != contract.PoolName(row.parameters) {
			t.Errorf("%s: %+v", name, got)
		}
		if (got.Lack == "") != (row.lack == "") || !strings.Contains(got.Lack, row.lack) {
			t.Errorf("%s: %q, want words %q", name, got.Lack, row.lack)
		}
	}
}

// The forms have only the pool local, and a class without a pool means another.
func TestFitWithoutAPool(t *testing.T) {
	b := backendsOf(t)
	sc := &storagev1.StorageClass{Provisioner: contract.CSIProvisioner}
	sc.Name = "plain"
	if got := b.noPool(sc, false); !strings.Contains(got, `no node has a pool "legacy", the pool of class "plain", which has no parameter storagePool`) {
		t.Errorf("%q", got)
	}
}

// A pool that is not ready lacks nothing that is known.
func TestFitNotReady(t *testing.T) {
	b := backendsOf(t)
	if err := b.pools.Named("legacy").Close(); err != nil {
		t.Fatal(err)
	}
	sc := classtest.Class("csi")
	sc.Parameters = map[string]string{"quota": "required"}
	if got := b.Fit(sc, 1); got.Fits || got.Lack != "" {
		t.Errorf("%+v", got)
	}
}
