package volume_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// Recover, which runs every minute, and Purge leave a copy alone, at whichever of its steps they come.
func TestCloneBesideRecover(t *testing.T) {
	var p *volume.Pool
	var copying atomic.Bool
	var beside sync.WaitGroup
	var mu sync.Mutex // guards steps
	steps := map[string]bool{}
	p = opened(t, volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), Step: func(step string) {
		if !copying.Load() || !strings.HasPrefix(step, "clone.") && !strings.HasPrefix(step, "record.") {
			return
		}
		mu.Lock()
		steps[step] = true
		mu.Unlock()
		beside.Go(func() {
			if err := p.Recover(); err != nil && !errors.Is(err, volume.ErrNotReady) { // of a busy machine
				t.Errorf("recover at %s: %v", step, err)
			}
			if _, err := p.Purge(t.Context()); err != nil && !errors.Is(err, volume.ErrNotReady) {
				t.Errorf("purge at %s: %v", step, err)
			}
		})
		time.Sleep(20 * time.Millisecond)
	}})
	sourceIn(t, p)
	purge(t, p)
	copying.Store(true)
	c, err := cloned(p, spec("c", gib))
	copying.Store(false)
	beside.Wait()
	ok(t, err)
	for _, want := range []string{"clone.mkdir", "clone.record", "clone.copy", "clone.entry", "clone.sync", "clone.rename", "clone.flush"} {
		if !steps[want] {
			t.Errorf("there was no step %s among %v", want, steps)
		}
	}
	if steps["clone.abandon"] || steps["clone.trash"] || !there(filepath.Join(c.Path, "a", "data")) {
		t.Errorf("the copy was given up, or is not whole: %v", steps)
	}
	purge(t, p)
	consistent(t, p)
}
