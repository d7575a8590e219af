package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The record of a deleted volume is in both directories after a power cut. The start, and
// the purge after it, are killed before each of their steps: the volume stays deleted, and a
// directory that was restored under its name stays.
func TestKilledWithARecordInBothPlaces(t *testing.T) {
	for name, row := range map[string]struct{ purged, restored bool }{
		"the entry is there":                             {},
		"the entry is there, a directory restored":       {restored: true},
		"the entry was purged":                           {purged: true},
		"the entry was purged, and a directory restored": {purged: true, restored: true},
	} {
		t.Run(name, func(t *testing.T) {
			died, n := true, 0
			for ; died; n++ {
				path := deletedTwice(t, row.purged, row.restored)
				w := &world{account: newAccount(), path: path}
				_, died, _ = dieHere(t, w, scene{call: purgeAll}, n+1, true)
				p := opened(t, volume.Config{Path: path})
				_, err := p.Get("v")
				is(t, err, volume.ErrNotFound)
				purge(t, p)
				p = reopened(t, p)
				_, err = p.Get("v")
				is(t, err, volume.ErrNotFound)
				if there(filepath.Join(path, "v", "data")) != row.restored {
					t.Errorf("killed at step %d: the restored directory is there: %v", n+1, !row.restored)
				}
				if left := names(t, filepath.Join(path, records)); len(left) > 0 {
					t.Errorf("killed at step %d: records %v", n+1, left)
				}
				ok(t, p.Close())
			}
			if n < 5 {
				t.Errorf("killed at %d steps, want 5 at the least", n-1)
			}
		})
	}
}

// deletedTwice returns a pool whose volume v was deleted, and whose record has both names
// again.
func deletedTwice(t *testing.T, purged, restored bool) (path string) {
	t.Helper()
	p := bound(t)
	purge(t, p) // writes the record
	id := onDisk(t, p, "v").Trash
	ok(t, p.Delete("v"))
	ok(t, p.Close())
	path = p.Path()
	ok(t, os.Link(filepath.Join(path, trash, id+".json"), filepath.Join(path, records, "v")))
	if purged {
		ok(t, os.RemoveAll(filepath.Join(path, trash, id)))
	}
	if restored {
		write(t, filepath.Join(path, "v", "data"), "restored")
	}
	return path
}
