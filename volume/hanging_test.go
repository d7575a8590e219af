package volume_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	patience = time.Second
	// atOnce is how long a call may take that does not wait for a disk. It is short
	// of patience, and long for a busy machine.
	atOnce = patience * 3 / 4
)

// bubble runs a subtest in which only its own pauses take time: what a busy disk takes is no time.
func bubble(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, run)
	})
}

// hanging is a disk that hangs at will: steps stop while their names begin with
// what is set.
type hanging struct {
	mu      sync.Mutex
	at      string
	release chan struct{}
	stopped map[string]int // steps that stopped, and did not go on
	most    int            // at the same time
}

// hang stops the steps whose names begin so from now on.
func (d *hanging) hang(at string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.release = at, make(chan struct{})
}

// thaw lets all go on.
func (d *hanging) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.release != nil {
		close(d.release)
	}
	d.release = nil
}

func (d *hanging) step(name string) {
	d.mu.Lock()
	release := d.release
	if release == nil || !strings.HasPrefix(name, d.at) {
		d.mu.Unlock()
		return
	}
	d.stopped[name]++
	all := 0
	for _, n := range d.stopped {
		all += n
	}
	d.most = max(d.most, all)
	d.mu.Unlock()
	<-release
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped[name]--
}

// atMost returns how many steps were stopped at the same time.
func (d *hanging) atMost() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

// reached waits until a step has stopped.
func (d *hanging) reached(t *testing.T) {
	t.Helper()
	soon(t, "a step that hangs", func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, n := range d.stopped {
			if n > 0 {
				return nil
			}
		}
		return errors.New("none")
	})
}

// soon waits until f succeeds.
func soon(t *testing.T, what string, f func() error) {
	t.Helper()
	err := errors.New("not asked")
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// newHanging returns a pool on a disk that hangs at will. It is not open yet.
func newHanging(t *testing.T, name string) (*volume.Pool, *hanging) {
	t.Helper()
	d := &hanging{stopped: map[string]int{}}
	p := configured(t, volume.Config{Name: name, Path: filepath.Join(t.TempDir(), "pool"), Holder: "test", Patience: patience, Step: d.step})
	t.Cleanup(d.thaw)
	return p, d
}

// refused checks that the error refuses the call and names the pool and the disk.
func refused(t *testing.T, p *volume.Pool, what string, within time.Duration, call func() error) {
	t.Helper()
	begin := time.Now()
	err := call()
	if took := time.Since(begin); took > within {
		t.Errorf("%s took %s", what, took)
	}
	is(t, err, volume.ErrNotReady)
	for _, words := range []string{"pool " + p.Name() + " in " + p.Path(), "does not answer"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %q is not in %q", what, words, err)
		}
	}
}

// everyCall is what can be asked of a pool that has the volume v.
func everyCall(p *volume.Pool) map[string]func() error {
	ctx := context.Background()
	second := func(_ any, err error) error { return err }
	return map[string]func() error{
		"ready":         p.Ready,
		"open":          p.Open,
		"get":           func() error { return second(p.Get("v")) },
		"by PV":         func() error { return second(p.ByPV("pv-v")) },
		"list":          func() error { return second(p.List()) },
		"space":         func() error { return second(p.Space()) },
		"uses":          func() error { return second(p.Usages()) },
		"noted paths":   func() error { return second(p.Paths()) },
		"note paths":    func() error { return p.SetPaths([]string{"/a"}) },
		"usage":         func() error { return second(p.QuotaUsage("v")) },
		"unrecorded":    func() error { return second(p.Unrecorded()) },
		"has directory": func() error { return second(p.HasDirectory("v")) },
		"adoptable":     func() error { return second(p.Adoptable("u")) },
		"adopt":         func() error { return second(p.Adopt(spec("u", mib))) },
		"adopt to move": func() error { return second(p.AdoptMigrating(spec("u", mib), journal)) },
		"create":        func() error { return second(p.Create(spec("u", mib))) },
		"create again":  func() error { return second(p.Create(spec("v", gib))) },
		"expand":        func() error { return second(p.Expand("v", 2*gib)) },
		"bind":          func() error { return second(p.Bind("v", binding("v"))) },
		"reown":         func() error { return p.Transfer("v", "uid-v", binding("v")) },
		"record claim":  func() error { return second(p.RecordClaim("v", "pv-v", spec("v", mib).Owner, describedClaim())) },
		"note orphan":   func() error { return second(p.NoteOrphan("v", "why", 0)) },
		"migrate":       func() error { return beginAs(p, "v", record.Migration{To: "csi"}) },
		"pin":           func() error { return p.Pin("v", func(volume.Pinned) error { return nil }) },
		"undo":          func() error { return p.RollBack("v") },
		"delete":        func() error { return p.Delete("v") },
		"settle":        p.Recover,
		"measure":       func() error { return p.Measure(ctx) },
		"purge":         func() error { return second(p.Purge(ctx)) },
	}
}
