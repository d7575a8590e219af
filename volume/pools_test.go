package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestNewPools(t *testing.T) {
	pool := func(name string) *Pool {
		p, err := New(Config{Name: name, Path: "/srv/" + name + "x"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, row := range map[string]struct {
		pools []*Pool
		want  string
	}{
		"none":     {nil, "no pool"},
		"twice":    {[]*Pool{pool("a"), pool("b"), pool("a")}, `"a"`},
		"nameless": {[]*Pool{pool("a"), pool("")}, "/srv/x"},
	} {
		if _, err := NewPools(row.pools...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
	}
}

// twoPools are open, and promise without a bound.
func twoPools(t *testing.T) *Pools {
	t.Helper()
	var all []*Pool
	for _, name := range []string{"one", "two"} {
		p, err := New(Config{Name: name, Path: filepath.Join(t.TempDir(), name), Overcommit: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		all = append(all, p)
	}
	s, err := NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPoolsFind(t *testing.T) {
	s := twoPools(t)
	one, two := s.Named("one"), s.Named("two")
	if s.Named("three") != nil || !slices.Equal(s.Names(), []string{"one", "two"}) {
		t.Errorf("names %q", s.Names())
	}
	if _, err := s.Create(two, Spec{Name: "v", Bytes: 1, PV: "pv"}); err != nil {
		t.Fatal(err)
	}
	if p, v, err := s.Find("v"); err != nil || p != two || v.Name != "v" {
		t.Errorf("%v %v %v", p, v, err)
	}
	if p, v, err := s.ByPV("pv"); err != nil || p != two || v.Name != "v" {
		t.Errorf("%v %v %v", p, v, err)
	}
	if _, err := s.Create(one, Spec{Name: "v", Bytes: 1}); !errors.Is(err, ErrConflict) {
		t.Errorf("the same name in another pool: %v", err)
	}
	for _, name := range []string{"", "../v", "w"} {
		if _, _, err := s.Find(name); err == nil {
			t.Errorf("found %q", name)
		}
	}
	if _, _, err := s.ByPV("v"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	one.Close()
	if p, _, err := s.Find("v"); err != nil || p != two {
		t.Errorf("a closed pool hides the other's volume: %v", err)
	}
	if _, _, err := s.Find("w"); !errors.Is(err, ErrNotReady) {
		t.Errorf("who is not asked may have it: %v", err)
	}
	if _, err := s.Create(two, Spec{Name: "w", Bytes: 1}); err != nil {
		t.Errorf("a closed pool keeps the other from working: %v", err)
	}
}

func TestPoolsDelete(t *testing.T) {
	s := twoPools(t)
	two := s.Named("two")
	if _, err := s.Create(two, Spec{Name: "v", Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Delete("v", func(v Volume) bool { return v.Ephemeral }); p != nil || err != nil {
		t.Errorf("%v %v", p, err)
	}
	if _, _, err := s.Find("v"); err != nil {
		t.Fatalf("deleted against its will: %v", err)
	}
	if p, err := s.Delete("v", nil); p != two || err != nil {
		t.Errorf("%v %v", p, err)
	}
	if p, err := s.Delete("v", nil); p != nil || err != nil {
		t.Errorf("again: %v %v", p, err)
	}
	s.Named("one").Close()
	if _, err := s.Delete("v", nil); !errors.Is(err, ErrNotReady) {
		t.Errorf("gone, and one pool could not be asked: %v", err)
	}
}

// What one pool promises, another on the same disk may not promise again.
func TestPoolsShareTheirDisk(t *testing.T) {
	var all []*Pool
	for _, name := range []string{"one", "two"} {
		p, err := New(Config{Name: name, Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		all = append(all, p)
	}
	s, err := NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	one, two := all[0], all[1]
	for _, p := range all {
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
	}
	before := space(t, two)
	most := space(t, one).Promisable
	if _, err := s.Create(one, Spec{Name: "v", Bytes: most - most/10}); err != nil {
		t.Fatal(err)
	}
	after := space(t, two)
	if after.Promised != 0 || after.Elsewhere != most-most/10 || after.Promisable > before.Promisable-most/2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := s.Create(two, Spec{Name: "w", Bytes: most / 2}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("promised a second time: %v", err)
	}
	if _, err := s.Delete("v", nil); err != nil {
		t.Fatal(err)
	}
	if got := space(t, two); got.Elsewhere != 0 {
		t.Errorf("given back, and still %+v", got)
	}

	// Many at once, in both, never get more than there is.
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			_, err := s.Create(all[i%2], Spec{Name: fmt.Sprint("n", i), Bytes: most / 20})
			if err != nil && !errors.Is(err, ErrNoSpace) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if a, b := space(t, one), space(t, two); a.Promised+b.Promised > most+most/50 || a.Promised != b.Elsewhere || b.Promised != a.Elsewhere {
		t.Errorf("%d bytes were there; one: %+v, two: %+v", most, a, b)
	}
}

func space(t *testing.T, p *Pool) Space {
	t.Helper()
	s, err := p.Space()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
