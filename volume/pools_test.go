package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
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

// A pool that is not offered stays closed and its path untouched, whatever it is
// asked; looking a name up passes it over.
func TestPoolNotOffered(t *testing.T) {
	dir := t.TempDir()
	shared, err := New(Config{Name: "shared", Path: filepath.Join(dir, "shared"), NotOffered: "it is everybody's"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := New(Config{Name: "own", Path: filepath.Join(dir, "own"), Overcommit: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewPools(shared, own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	if err := own.Open(); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Open": shared.Open(), "Ready": shared.Ready(), "Create": second(s.Create(shared, Spec{Name: "v", Bytes: 1})),
		"Adopt": second(shared.Adopt(Spec{Name: "v"})), "Delete": second(s.Delete("v", nil)),
	} {
		if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "it is everybody's") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Lstat(shared.Path()); err == nil {
		t.Error("a directory was made")
	}
	if _, _, err := s.Find("v"); !errors.Is(err, ErrNotFound) {
		t.Errorf("find what is nowhere: %v", err)
	}
	if _, err := s.Create(own, Spec{Name: "v", Bytes: 1}); err != nil {
		t.Error(err)
	}
	if p, err := s.Delete("v", nil); err != nil || p != own {
		t.Errorf("delete what is in the other pool: %v, %v", p, err)
	}
}

func second[T any](_ T, err error) error { return err }

// twoPools are open, and allocate without a bound.
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

// A pool that cannot be asked is never passed over, though the others have no such
// volume: neither where only volumes of a kind are wanted, nor where the pool
// ceases to be ready after it was asked.
func TestPoolsDeleteAsksAll(t *testing.T) {
	for name, row := range map[string]struct {
		want   func(Volume) bool
		closed string // the step of the first pool at which the second closes; "" is before
	}{
		"any":                       {nil, ""},
		"of a kind":                 {func(v Volume) bool { return v.Ephemeral }, ""},
		"any, and closed meanwhile": {nil, "delete.move"},
	} {
		t.Run(name, func(t *testing.T) {
			var at func(step string)
			one, err := New(Config{Name: "one", Path: filepath.Join(t.TempDir(), "one"), Overcommit: 1e6, Step: func(step string) {
				if at != nil {
					at(step)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			two := twoPools(t).Named("two")
			s, err := NewPools(one, two)
			if err == nil {
				err = one.Open()
			}
			if err == nil {
				_, err = s.Create(one, Spec{Name: "v", Bytes: 1})
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { one.Close() })
			if row.closed == "" {
				two.Close()
				if _, err := s.Delete("nowhere", row.want); !errors.Is(err, ErrNotReady) {
					t.Errorf("it says %v", err)
				}
				return
			}
			// Half gone, so that looking for it finds nothing, and Delete goes on with it.
			r, _ := one.records.Get("v")
			inTheWay := filepath.Join(one.Path(), pooldir.PrivateName, pooldir.TrashName, r.Trash+record.Suffix)
			at = func(step string) {
				if step == row.closed {
					_ = os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700)
				}
			}
			if _, err := s.Delete("v", nil); err == nil {
				t.Fatal("the record cannot be moved; it proves nothing")
			}
			if err := os.RemoveAll(inTheWay); err != nil {
				t.Fatal(err)
			}
			at = func(step string) {
				if step == row.closed {
					two.Close()
				}
			}
			if _, err := s.Delete("v", nil); !errors.Is(err, ErrNotReady) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// Bytes that one pool allocates are not available in another on the same disk.
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
	before := spaceIn(t, two)
	most := spaceIn(t, one).Available
	if _, err := s.Create(one, Spec{Name: "v", Bytes: most - most/10}); err != nil {
		t.Fatal(err)
	}
	after := spaceIn(t, two)
	if after.Allocated != 0 || after.Elsewhere != most-most/10 || after.Available > before.Available-most/2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := s.Create(two, Spec{Name: "w", Bytes: most / 2}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("allocated a second time: %v", err)
	}
	if _, err := s.Delete("v", nil); err != nil {
		t.Fatal(err)
	}
	if got := spaceIn(t, two); got.Elsewhere != 0 {
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
	if a, b := spaceIn(t, one), spaceIn(t, two); a.Allocated+b.Allocated > most+most/50 || a.Allocated != b.Elsewhere || b.Allocated != a.Elsewhere {
		t.Errorf("%d bytes were there; one: %+v, two: %+v", most, a, b)
	}
}

func spaceIn(t *testing.T, p *Pool) space.Space {
	t.Helper()
	s, err := p.Space()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
