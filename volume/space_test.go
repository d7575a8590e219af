package volume_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestSpace(t *testing.T) {
	p := newPool(t)
	s, err := p.Space()
	ok(t, err)
	if s.Total <= 0 || s.Free <= 0 || s.Allocated != 0 || s.Estimate || s.External != s.Total-s.Free {
		t.Errorf("space %+v", s)
	}
	create(t, p, "v")
	if s, err = p.Space(); err != nil || s.Allocated != gib || !s.Estimate {
		t.Errorf("space %+v, %v", s, err)
	}
	ok(t, p.Delete("v"))
	if s, err = p.Space(); err != nil || s.Allocated != 0 {
		t.Errorf("space %+v, %v: the allocation returns at once", s, err)
	}
}

func TestNoSpace(t *testing.T) {
	p := newPool(t)
	_, err := p.Create(spec("v", 1<<60))
	is(t, err, volume.ErrNoSpace)
	var space *fault.SpaceError
	if !errors.As(err, &space) || space.Wanted != 1<<60 || space.Available <= 0 || space.Total < space.Available {
		t.Errorf("error %v: %+v", err, space)
	}
	if got := names(t, filepath.Join(p.Path(), records)); len(got) > 0 {
		t.Errorf("wrote %v", got)
	}
	consistent(t, p)
}

// Many want the last bytes, and just as many get them as fit.
func TestLastBytes(t *testing.T) {
	const fit, want = 5, 20
	path := filepath.Join(t.TempDir(), "pool")
	p := opened(t, volume.Config{Path: path})
	s, err := p.Space()
	ok(t, err)
	ok(t, p.Close())
	// So small a share of the disk stays free that other writers do not matter.
	p = opened(t, volume.Config{Path: path, Reserve: s.Total - s.External - fit*gib - gib/2, Overcommit: 1})
	if s, err = p.Space(); err != nil || s.Available/gib != fit {
		t.Fatalf("space %+v, %v", s, err)
	}
	var wait sync.WaitGroup
	errs := make([]error, want)
	for i := range want {
		wait.Go(func() { _, errs[i] = p.Create(spec(fmt.Sprint("v", i), gib)) })
	}
	wait.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
			continue
		}
		is(t, err, volume.ErrNoSpace)
	}
	if got != fit {
		t.Errorf("%d volumes, %d fit", got, fit)
	}
	consistent(t, p)
}

// Calls for one name and for many, all at once.
func TestConcurrentCalls(t *testing.T) {
	p := newPool(t)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 5 {
				if _, err := p.Create(spec("same", gib)); err != nil {
					t.Error(err)
				}
				own := fmt.Sprint("own", i)
				if _, err := p.Create(spec(own, gib)); err != nil {
					t.Error(err)
				}
				if _, err := p.List(); err != nil {
					t.Error(err)
				}
				if err := errors.Join(p.RollBack("same"), p.Delete(own)); err != nil {
					t.Error(err)
				}
				if _, err := p.Purge(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	consistent(t, p)
	purge(t, p)
}

func TestMeasure(t *testing.T) {
	p := newPool(t)
	v := create(t, p, "v")
	write(t, filepath.Join(v.Path, "data"), strings.Repeat("x", 1<<20))
	ok(t, os.Remove(create(t, p, "lost").Path))
	ok(t, p.Measure(t.Context()))
	s, err := p.Space()
	ok(t, err)
	if s.Used < 1<<20 || s.Used > 2<<20 || !s.Estimate {
		t.Errorf("used %d", s.Used)
	}
	ok(t, p.Delete("v"))
	if s, err = p.Space(); err != nil || s.Used != 0 {
		t.Errorf("used %d, %v", s.Used, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := p.Measure(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPurgeStopsAndGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	var stop func()
	removed := 0
	p := opened(t, volume.Config{Path: path, PurgeRate: 100, Step: func(name string) {
		if name == "purge.remove" {
			if removed++; removed == 10 {
				stop()
			}
		}
	}})
	if more, err := p.Purge(t.Context()); more || err != nil {
		t.Fatal(more, err)
	}
	v := create(t, p, "v")
	for i := range 60 {
		write(t, filepath.Join(v.Path, fmt.Sprint(i)), "x")
	}
	ok(t, p.Delete("v"))
	ctx, cancel := context.WithCancel(t.Context())
	stop = cancel
	more, err := p.Purge(ctx)
	if !more || !errors.Is(err, context.Canceled) {
		t.Fatal(more, err)
	}
	left := names(t, filepath.Join(path, trash))
	if len(left) != 2 {
		t.Fatalf("trash %v", left)
	}
	if n := len(names(t, filepath.Join(path, trash, left[0]))); n < 50 || n == 60 {
		t.Errorf("%d of 60 files are left, want the purge to stop at the tenth", n)
	}
	start := time.Now()
	purge(t, p)
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("the rest took only %v", took)
	}
}

// A purge that takes long keeps the pool neither from being used nor from
// being reopened or closed.
func TestPurgeYields(t *testing.T) {
	for name, c := range map[string]struct {
		interrupt func(p *volume.Pool) error
		stops     bool
	}{
		"used": {func(p *volume.Pool) error {
			_, err := p.Create(spec("w", gib))
			return errors.Join(err, p.Open(), p.Ready())
		}, false},
		"reopened": {func(p *volume.Pool) error {
			path := p.Path()
			return errors.Join(os.Rename(path, path+"-gone"), os.Rename(path+"-copy", path), p.Ready())
		}, true},
		"closed": {(*volume.Pool).Close, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), PurgeRate: 10})
			v := create(t, p, "v")
			for i := range 100 {
				write(t, filepath.Join(v.Path, fmt.Sprint(i)), "x")
			}
			ok(t, p.Delete("v"))
			copyTree(t, p.Path(), p.Path()+"-copy")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			go func() {
				_, err := p.Purge(ctx)
				done <- err
			}()
			time.Sleep(50 * time.Millisecond)
			start := time.Now()
			ok(t, c.interrupt(p))
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
			if !c.stops {
				cancel()
				is(t, <-done, context.Canceled)
				return
			}
			is(t, <-done, volume.ErrNotReady)
		})
	}
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		_, err := inspect.Read(path)
		is(t, err, volume.ErrNotReady)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("created %v", got)
	}
	p := newPool(t)
	create(t, p, "kept")
	ok(t, os.Remove(create(t, p, "lost").Path))
	create(t, p, "gone")
	ok(t, p.Delete("gone"))
	write(t, filepath.Join(p.Path(), "old/data"), "x")
	_, err := p.Adopt(spec("old", gib))
	ok(t, err)
	write(t, filepath.Join(p.Path(), records, "bad"), "?")
	ok(t, os.Chmod(p.Path(), 0o711))

	r, err := inspect.Read(p.Path())
	ok(t, err)
	if r.Pool.ID != p.ID() || r.Pool.Path != p.Path() || !strings.HasPrefix(r.Pool.Holder, "test, pid ") || !r.Pool.Held {
		t.Errorf("pool %+v", r.Pool)
	}
	if len(r.Volumes) != 3 || r.Volumes[0].Name != "kept" || !r.Volumes[1].Missing || !r.Volumes[2].Adopted ||
		r.Volumes[2].State != record.Bound || r.Volumes[0].Owner.UID != "uid-kept" {
		t.Errorf("volumes %+v", r.Volumes)
	}
	if len(r.Trash) != 1 || r.Trash[0].Name != "gone" || r.Trash[0].Bytes != gib || time.Since(r.Trash[0].Since) > time.Minute {
		t.Errorf("trash %+v", r.Trash)
	}
	if len(r.Damaged) != 1 || len(r.Warnings) != 1 || r.Space.Allocated != 3*gib {
		t.Errorf("report %+v", r)
	}
	data, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(data), `"volumes":[{"name":"kept","state":"ready","bytes":1073741824,`) {
		t.Errorf("JSON %s, %v", data, err)
	}
	ok(t, p.Close())
	if r, err = inspect.Read(p.Path()); err != nil || r.Pool.Held {
		t.Errorf("pool %+v, %v", r.Pool, err)
	}
}
