package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

func TestPrivateDirectoryVanishes(t *testing.T) {
	for _, gone := range []string{private, private + "/pool.json"} {
		p := newPool(t)
		create(t, p, "v")
		ok(t, os.RemoveAll(filepath.Join(p.Path(), gone)))
		is(t, p.Delete("v"), volume.ErrNotReady)
		is(t, p.Ready(), volume.ErrNotReady)
		if there(filepath.Join(p.Path(), gone)) {
			t.Errorf("%s was created again", gone)
		}
	}
}

// The identity is written again in place, as an editor or a copy from elsewhere
// does it, and later as it was.
func TestIdentityChanges(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	path := filepath.Join(p.Path(), private, "pool.json")
	was, err := os.ReadFile(path)
	ok(t, err)
	other := strings.Replace(string(was), p.ID(), "00000000-0000-4000-8000-000000000000", 1)
	for content, words := range map[string]string{other: "another disk", "": "cannot be read"} {
		write(t, path, content)
		is(t, p.Delete("v"), volume.ErrNotReady)
		if err := p.Ready(); !errors.Is(err, volume.ErrNotReady) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", content, err)
		}
	}
	write(t, path, string(was))
	ok(t, p.Ready())
	consistent(t, p)
}

// A directory of the agent goes away while the private one stays.
func TestOwnDirectoryVanishes(t *testing.T) {
	for _, name := range []string{records, staging, trash} {
		p := newPool(t)
		create(t, p, "v")
		path := filepath.Join(p.Path(), name)
		ok(t, os.Rename(path, path+"-away"))
		is(t, p.Ready(), volume.ErrNotReady)
		_, err := p.Create(spec("w", gib))
		is(t, err, volume.ErrNotReady)
		is(t, p.Delete("v"), volume.ErrNotReady)
		mkdir(t, path)
		is(t, p.Ready(), volume.ErrNotReady)
		ok(t, os.Remove(path))
		ok(t, os.Rename(path+"-away", path))
		ok(t, p.Ready())
		consistent(t, p)
	}
}
