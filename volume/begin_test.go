package volume

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A call that reads until its caller has left begins no change: the caller has an error by which
// nothing was done.
func TestNoChangeBeginsWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		p, err := New(Config{Path: t.TempDir(), Step: func(name string) { steps = append(steps, name) }})
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Second
		done := make(chan error, 1)
		err = bounded.NewCalls("the disk", patience).Do("change", func(c *bounded.Call) error {
			time.Sleep(2 * patience)
			err := p.putFirst(&call{Call: c, Dir: &pooldir.Dir{Records: -1}}, "change.record", record.Record{Name: "v"})
			done <- err
			return err
		})
		if !errors.Is(err, ErrNotReady) {
			t.Errorf("the caller got %v", err)
		}
		if err := <-done; err == nil || len(steps) > 0 {
			t.Errorf("began %q, %v", steps, err)
		}
	})
}

// The same of the calls whose first change is not that of a record, and of a recovery that outlives
// the caller for whom it was made. In the bubble, what a busy disk takes is no time.
func TestNoCallGoesOnWithoutItsCaller(t *testing.T) { synctest.Test(t, noCallGoesOn) }

func noCallGoesOn(t *testing.T) {
	const patience = 100 * time.Millisecond
	var steps []string
	hang := func(string) {}
	p, err := New(Config{Path: filepath.Join(t.TempDir(), "pool"), Patience: patience, Step: func(name string) {
		steps = append(steps, name)
		hang(name)
	}})
	if err == nil {
		err = p.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if _, err := p.Create(Spec{Name: "v", Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	ready := func() {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); p.Ready() != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(p.Ready())
			}
		}
	}
	v, _ := p.records.Get("v")
	for name, do := range map[string]func(*call) error{
		"create": func(c *call) error { _, err := p.create(c, Spec{Name: "new", Bytes: 1}); return err },
		"delete": func(c *call) error { return p.delete(c, v) },
	} {
		steps = nil
		done := make(chan error, 1)
		err := p.withPool(name, "v", func(c *call) error {
			time.Sleep(3 * patience)
			err := do(c)
			done <- err
			return err
		})
		if now := <-done; !errors.Is(err, ErrNotReady) || now == nil || len(steps) > 0 {
			t.Errorf("%s: began %q, %v; the caller got %v", name, steps, now, err)
		}
		ready()
	}
	if t.Failed() {
		return
	}
	unfinished := v
	unfinished.State = record.Creating
	p.records.Set(unfinished)
	recovered := make(chan struct{})
	hang = func(name string) {
		if name == "recover.place" {
			time.Sleep(3 * patience)
			defer close(recovered)
		}
	}
	if err := p.Pin("v", func(Pinned) error { t.Error("mounted for a caller that had left"); return nil }); !errors.Is(err, ErrNotReady) {
		t.Errorf("pin: %v", err)
	}
	<-recovered
	ready()
	if err := p.Pin("v", func(Pinned) error { return nil }); err != nil {
		t.Error(err)
	}
}
