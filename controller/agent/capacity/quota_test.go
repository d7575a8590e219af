package capacity

import (
	"path/filepath"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The scheduler is not sent to a pool that lacks what the class insists on.
func TestCheckQuota(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "legacy", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	g := newGauge(pool)
	must := &storagev1.StorageClass{Parameters: map[string]string{"quota": "required"}}
	if err := checkQuota(must, g); err != nil {
		t.Errorf("the pool was not asked yet: %v", err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	g.set(g.read())
	if err := checkQuota(must, g); err == nil || !strings.Contains(err.Error(), pool.Quotas().Reason) {
		t.Errorf("%v; the pool enforces no quotas: %v", err, pool.Quotas())
	}
	for _, parameters := range []map[string]string{nil, {"quota": "none"}, {"quota": "best-effort"}, {"quota": "misspelt"}} {
		if err := checkQuota(&storagev1.StorageClass{Parameters: parameters}, g); err != nil {
			t.Errorf("%v: %v", parameters, err)
		}
	}
}
