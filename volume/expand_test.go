package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestExpand(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	write(t, filepath.Join(p.Path(), "v/data"), "x")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	for range 2 {
		v, err := p.Expand("v", 2*gib)
		if err != nil || v.Bytes != 2*gib || v.State != record.Bound || onDisk(t, p, "v").Bytes != 2*gib {
			t.Errorf("%+v, %v", v, err)
		}
		consistent(t, p)
	}
	if !there(filepath.Join(p.Path(), "v/data")) {
		t.Error("its data is gone")
	}
	// The claim's own size from now on.
	_, err = p.Create(spec("v", gib))
	is(t, err, volume.ErrConflict)
	// An adopted volume without an allocation may get one.
	mkdir(t, filepath.Join(p.Path(), "old"))
	_, err = p.Adopt(spec("old", 0))
	ok(t, err)
	if v, err := p.Expand("old", gib); err != nil || v.Bytes != gib || v.QuotaEnforced {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestExpandRefused(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	inline := spec("inline", gib)
	inline.Ephemeral = true
	_, err := p.Create(inline)
	ok(t, err)
	create(t, p, "lost")
	ok(t, os.Remove(filepath.Join(p.Path(), "lost")))
	create(t, p, "link")
	ok(t, os.Remove(filepath.Join(p.Path(), "link")))
	ok(t, os.Symlink("v", filepath.Join(p.Path(), "link")))
	for _, row := range []struct {
		name  string
		bytes int64
		want  error
		says  string
	}{
		{"v", gib - 1, volume.ErrInvalid, "cannot shrink"},
		{"v", 0, volume.ErrInvalid, "cannot shrink"},
		{"v", -1, volume.ErrInvalid, "cannot shrink"},
		{"inline", 2 * gib, volume.ErrInvalid, "ephemeral"},
		{"none", gib, volume.ErrNotFound, ""},
		{"lost", 2 * gib, volume.ErrNotFound, ""},
		{"link", 2 * gib, volume.ErrConflict, ""},
		{"../v", 2 * gib, volume.ErrInvalid, ""},
		{"v", 1 << 60, volume.ErrNoSpace, ""},
	} {
		_, err := p.Expand(row.name, row.bytes)
		if is(t, err, row.want); !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s to %d: %v", row.name, row.bytes, err)
		}
	}
	if v, err := p.Get("v"); err != nil || v.Bytes != gib {
		t.Errorf("%+v, %v", v, err)
	}
}

// Many volumes want the last bytes. Each asks for the difference alone, and as
// many get it as fit.
func TestExpandLastBytes(t *testing.T) {
	const fit, want = 3, 6
	path := filepath.Join(t.TempDir(), "pool")
	p := opened(t, volume.Config{Path: path})
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		create(t, p, name)
	}
	s, err := p.Space()
	ok(t, err)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: path, Reserve: s.Total - s.External - (want+fit)*gib - gib/2})
	if s, err = p.Space(); err != nil || s.Available/gib != fit {
		t.Fatalf("space %+v, %v", s, err)
	}
	errs := make([]error, want)
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { _, errs[i] = p.Expand(name, 2*gib) })
	}
	wait.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
			continue
		}
		var space *fault.SpaceError
		if !errors.As(err, &space) || space.Wanted != gib {
			t.Error(err)
		}
	}
	if got != fit {
		t.Errorf("%d were expanded, %d fit", got, fit)
	}
	consistent(t, p)
}
