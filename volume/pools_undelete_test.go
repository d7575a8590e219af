package volume_test

import (
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume does not come back while another pool has its name: a name alone finds a volume.
func TestPoolsUndelete(t *testing.T) {
	s := newShelf(t, time.Hour)
	ok(t, s.Close())
	s.c.Name = "a"
	first := configured(t, s.c)
	second := configured(t, volume.Config{Name: "b", Path: filepath.Join(t.TempDir(), "pool")})
	pools, err := volume.NewPools(first, second)
	ok(t, err)
	if errs := pools.Open(); len(errs) > 0 {
		t.Fatal(errs)
	}
	s.Pool = first
	id := s.deletes("v")[0]
	create(t, second, "v")
	_, err = pools.Undelete(first, id)
	is(t, err, volume.ErrConflict)
	s.keeps("v")
	ok(t, second.RollBack("v"))
	_, err = pools.Undelete(first, id)
	ok(t, err)
	_, err = pools.Undelete(first, id)
	is(t, err, volume.ErrNotFound)
	_, err = pools.Create(second, spec("v", gib))
	is(t, err, volume.ErrConflict)
}
