package volume_test

import (
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A directory that is another agent's pool is no volume: it is not adopted, and not deleted with
// all volumes in it.
func TestPoolsAreNotAdopted(t *testing.T) {
	outer := newPool(t)
	inner := opened(t, volume.Config{Path: filepath.Join(outer.Path(), "csi"), Holder: "another agent"})
	write(t, filepath.Join(create(t, inner, "tenant").Path, "data"), "precious")
	for range 2 { // while its agent runs, and when it is away
		_, err := outer.Adoptable("csi")
		is(t, err, volume.ErrConflict)
		_, err = outer.Adopt(spec("csi", mib))
		is(t, err, volume.ErrConflict)
		is(t, outer.Delete("csi"), volume.ErrConflict)
		ok(t, inner.Close())
	}
	if _, err := outer.Purge(t.Context()); err != nil || !there(filepath.Join(inner.Path(), "tenant", "data")) {
		t.Errorf("the volume of the pool inside: %v, %v", there(filepath.Join(inner.Path(), "tenant", "data")), err)
	}
	mkdir(t, filepath.Join(outer.Path(), "plain"))
	_, err := outer.Adopt(spec("plain", mib))
	ok(t, err)
}
