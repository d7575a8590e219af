package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A removal that was killed between any two steps leaves a volume that is whole and kept, or one that no
// start offers: also if the pool kept nothing before, and keeps what is deleted from now on.
func TestHalfRemovedIsNotOffered(t *testing.T) {
	purged := op{do: "delete and purge", name: "v"}
	for _, s := range []scene{
		{name: "never kept", prepare: []op{createV, fillV, boundV}, call: purged, least: 16},
		{name: "kept before", prepare: []op{keepV, fillV, boundV, deleteV}, call: op{do: "drop and purge", name: "v"}, least: 15},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			g := ground{path: func(t *testing.T) string { return filepath.Join(t.TempDir(), "pool") }}
			n := 1
			for ; ; n++ {
				w := g.world(t, s)
				_, died, _ := dieHere(t, w, s, n, false)
				if !died {
					break
				}
				wholeOrGone(t, w.path, s.call == purged)
				if t.Failed() {
					t.Fatalf("killed before step %d", n)
				}
			}
			if n-1 < s.least {
				t.Errorf("killed at %d steps, want %d at the least", n-1, s.least)
			}
		})
	}
}

// wholeOrGone starts with a retention on what a killed removal of volume v left.
func wholeOrGone(t *testing.T, path string, neverKept bool) {
	t.Helper()
	p := opened(t, keeping(volume.Config{Path: path, TrashRetention: time.Hour}))
	defer p.Close()
	if len(p.Kept()) > 0 && neverKept {
		t.Errorf("kept are %+v, and nothing was when it was deleted", p.Kept())
	}
	for range 2 {
		for _, k := range p.Kept() {
			if data, err := os.ReadFile(filepath.Join(path, keptDir, k.ID, "a", "b", "data")); string(data) != "x" {
				t.Errorf("offered with %q, %v", data, err)
			}
		}
		for _, r := range p.SetAside() { // its caller had no answer
			ok(t, p.Delete(r.Name))
		}
		purge(t, p)
	}
}

// An undelete, and the end of the time for which a volume is kept, at once: it is in place with its data,
// or its removal was decided.
func TestUndeleteAsItsTimeEnds(t *testing.T) {
	back := 0
	for i := range 40 {
		s := newShelf(t, time.Hour)
		decided := make(chan struct{})
		s.c.Step = func(step string) {
			if step == "kept.record" { // the directory is in the trash
				close(decided)
			}
		}
		s.open()
		id := s.deletes("v")[0]
		s.runs(2 * time.Hour)
		purged := make(chan error)
		go func() { _, err := s.Purge(t.Context()); purged <- err }()
		if i%2 == 0 {
			<-decided
		}
		_, err := s.Undelete(id)
		ok(t, <-purged)
		v, found := s.Get("v")
		switch {
		case err == nil:
			if back++; found != nil || !there(filepath.Join(v.Path, "data")) {
				t.Fatalf("brought back, and it is %+v, %v", v.Record, found)
			}
		case !errors.Is(err, volume.ErrNotFound):
			t.Error(err)
		case !errors.Is(found, volume.ErrNotFound):
			t.Errorf("removed, and it is %+v, %v", v.Record, found)
		}
		s.keeps()
		purge(t, s.Pool)
		consistent(t, s.Pool)
	}
	if back == 0 || back == 40 {
		t.Errorf("%d of 40 came back", back)
	}
}
