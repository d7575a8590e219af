package volume_test

import (
	"cmp"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The harness kills every call right before each change that it makes to the
// disk, kills the start after that in the same way, and then compares
// the pool with the results that callers got. life_test.go has how a process dies.

// A scene is a call that dies.
type scene struct {
	name    string
	prepare []op // nothing of it is killed
	call    op
	beside  op // under way on another volume when the kill comes; none where it is zero
	// least is how many steps the call makes at the least: one that is not
	// announced any more is missed.
	least int
}

const size = 4 * mib

var (
	createV   = op{"create", "v", size}
	keepV     = op{"create to keep", "v", size}
	fillV     = op{do: "fill", name: "v"}
	bindV     = op{do: "bind", name: "v"}
	boundV    = op{do: "bind and purge", name: "v"}
	claimV    = op{do: "record claim and purge", name: "v"}
	loseV     = op{do: "lose", name: "v"}
	deleteV   = op{do: "delete", name: "v"}
	undeleteV = op{do: "undelete", name: "v"}
	asideV    = op{do: "set aside", name: "v"}
	expandV   = op{"expand", "v", 2 * size}
	purgeAll  = op{do: "purge"}
	createW   = op{"create", "w", size}
	beginV    = op{do: "begin migration", name: "v"}
	adoptV    = op{"adopt to move", "v", size}
	cloneC    = op{"clone", "c", size}
	cutOverV  = op{do: "cut over", name: "v"}
)

// scenes are all calls that change the disk, and a few with another beside.
var scenes = []scene{
	{name: "open", call: op{do: "open"}, least: 18},
	{name: "create", call: createV, least: 7},
	{name: "create again what was lost", prepare: []op{createV, purgeAll, loseV}, call: createV, least: 8},
	{name: "write deferred", prepare: []op{createV}, call: boundV, least: 4},
	{name: "record claim", prepare: []op{createV, boundV}, call: claimV, least: 4},
	{name: "reown", prepare: []op{createV, fillV, boundV, claimV}, call: op{do: "reown", name: "v"}, least: 4},
	{name: "expand", prepare: []op{createV}, call: expandV, least: 4},
	{name: "expand what has its claim", prepare: []op{createV, boundV, claimV}, call: expandV, least: 4},
	{name: "undo", prepare: []op{createV}, call: op{do: "undo", name: "v"}, least: 8},
	{name: "delete", prepare: []op{createV, fillV, boundV}, call: deleteV, least: 3},
	{name: "delete what was lost", prepare: []op{createV, boundV, loseV}, call: deleteV, least: 3},
	{name: "delete what was set aside", prepare: []op{createV, fillV, boundV, asideV}, call: deleteV, least: 1},
	{name: "restore", prepare: []op{createV, fillV, boundV, asideV}, call: op{do: "restore", name: "v"}, least: 9},
	{name: "keep", prepare: []op{keepV, fillV, boundV, claimV}, call: deleteV, least: 6},
	{name: "keep the second", prepare: []op{keepV, fillV, boundV, deleteV, undeleteV}, call: deleteV, least: 3},
	{name: "keep what was set aside", prepare: []op{keepV, fillV, boundV, deleteV, undeleteV, {do: "set aside to keep", name: "v"}},
		call: deleteV, least: 1},
	{name: "undelete", prepare: []op{keepV, fillV, boundV, claimV, deleteV}, call: undeleteV, least: 10},
	{name: "undelete an orphan", prepare: []op{keepV, fillV, boundV, {do: "note orphan", name: "v"}, deleteV, purgeAll}, call: undeleteV, least: 10},
	{name: "undelete beside a create", prepare: []op{keepV, fillV, boundV, deleteV}, call: undeleteV, beside: createW, least: 10},
	{name: "drop", prepare: []op{keepV, fillV, boundV, deleteV}, call: op{do: "drop", name: "v"}, least: 2},
	{name: "drop and purge", prepare: []op{keepV, fillV, boundV, deleteV}, call: op{do: "drop and purge", name: "v"}, least: 15},
	{name: "purge what was kept", prepare: []op{keepV, fillV, boundV, deleteV, {do: "drop", name: "v"}}, call: purgeAll, least: 13},
	{name: "adopt", prepare: []op{{do: "mkdir", name: "v"}}, call: op{"adopt", "v", size}, least: 4},
	{name: "adopt to move", prepare: []op{{do: "mkdir", name: "v"}}, call: adoptV, least: 4},
	{name: "give back", prepare: []op{{do: "mkdir", name: "v"}, adoptV}, call: op{do: "cancel migration", name: "v"}, least: 2},
	{name: "purge", prepare: []op{createV, fillV, deleteV}, call: purgeAll, least: 13},
	{name: "note orphan", prepare: []op{createV, boundV}, call: op{do: "note orphan", name: "v"}, least: 4},
	{name: "note paths", call: op{do: "note paths", name: "v"}, least: 4},
	{name: "begin migration", prepare: []op{createV, boundV}, call: beginV, least: 4},
	{name: "cut over", prepare: []op{createV, boundV, beginV}, call: cutOverV, least: 4},
	{name: "finish migration", prepare: []op{createV, boundV, beginV, cutOverV}, call: op{do: "finish migration", name: "v"}, least: 4},
	{name: "cancel migration", prepare: []op{createV, boundV, beginV}, call: op{do: "cancel migration", name: "v"}, least: 4},
	{name: "clone", prepare: []op{createV, fillV, boundV}, call: cloneC, least: 12},
	{name: "clone again what was lost", prepare: []op{createV, fillV, boundV, cloneC, purgeAll, {do: "lose", name: "c"}},
		call: cloneC, least: 12},
	{name: "undo a clone", prepare: []op{createV, fillV, boundV, cloneC}, call: op{do: "undo", name: "c"}, least: 3},
	{name: "undo a written clone", prepare: []op{createV, fillV, boundV, cloneC, purgeAll}, call: op{do: "undo", name: "c"}, least: 3},
	{name: "bind a clone", prepare: []op{createV, fillV, boundV, cloneC}, call: op{do: "bind", name: "c"}, least: 4},
	{name: "delete a clone", prepare: []op{createV, fillV, boundV, cloneC, {do: "bind", name: "c"}}, call: op{do: "delete", name: "c"}, least: 3},
	{name: "create beside a create", call: createV, beside: createW, least: 7},
	{name: "expand beside a create", prepare: []op{createV}, call: expandV, beside: createW, least: 4},
	{name: "delete beside a create", prepare: []op{createV, fillV}, call: deleteV, beside: createW, least: 3},
	{name: "purge beside a delete", prepare: []op{createW, createV, fillV, deleteV}, call: purgeAll,
		beside: op{do: "delete", name: "w"}, least: 13},
}

// A ground is where the pools of the harness lie.
type ground struct {
	limit record.QuotaPolicy
	path  func(*testing.T) string // of no pool yet
	// copy copies a pool that no process has open. If it is nil, the pool is made once more
	// from the beginning.
	copy func(t *testing.T, from, to string)
	// limits returns which quotas of an open pool are wrong.
	limits func(*volume.Pool) []breach
	// swept returns the quotas without a directory that a start left.
	swept func() []breach
	// settle waits until the kernel no longer counts what was removed; nil:
	// it never does.
	settle func()
	// least is of calls that make another number of steps here.
	least map[string]int
	// starts has the names of the scenes after which the start dies, too; nil
	// is every one without another call beside.
	starts map[string]bool
	die    dying
}

func TestKilledAnywhere(t *testing.T) {
	g := ground{
		path:   func(t *testing.T) string { return filepath.Join(t.TempDir(), "pool") },
		copy:   copyTree,
		limits: func(*volume.Pool) []breach { return nil },
		swept:  func() []breach { return nil },
		die:    dieHere,
	}
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // it waits for the disk most of the time
			g.play(t, s)
		})
	}
}

// play kills the call before its first step, its second, and so on.
func (g ground) play(t *testing.T, s scene) {
	opening := s.call.do == "open"
	steps, died, answer := g.die(t, g.world(t, s), s, 0, opening)
	if died {
		t.Fatal("it died, and nothing killed it")
	}
	g.emptied(t, s)
	n, starts := 1, 0
	for ; ; n++ {
		w := g.world(t, s)
		// How many steps it makes depends on what else the kernel removes.
		if _, died, _ := g.die(t, w, s, n, opening); !died {
			break
		}
		starts += g.startDies(t, s, n, w, answer)
	}
	if least := cmp.Or(g.least[s.call.do], s.least); n-1 < least {
		t.Errorf("killed at %d steps, want %d at the least", n-1, least)
	}
	t.Logf("%s: killed at %d of %d steps, and the starts after that at %d", s.name, n-1, steps, starts)
}

// emptied makes the call and deletes every volume: nothing is allocated then,
// not by a reservation either.
func (g ground) emptied(t *testing.T, s scene) {
	t.Helper()
	w := g.world(t, s)
	p := opened(t, keeping(volume.Config{Path: w.path}))
	defer p.Close()
	_, err := w.do(p, s.call)
	ok(t, err)
	all, err := p.List()
	ok(t, err)
	for _, v := range all {
		if v.Migrating() != nil { // it would not be deleted
			_, err := w.do(p, op{do: "cancel migration", name: v.Name})
			ok(t, err)
			if v.Adopted { // nothing is left but the directory
				continue
			}
		}
		_, err := w.do(p, op{do: "delete", name: v.Name})
		ok(t, err)
	}
	g.held(t, w, p)
}

// startDies kills the start after the kill at the n-th step, too, and returns
// how often it did.
func (g ground) startDies(t *testing.T, s scene, n int, left *world, answer string) (count int) {
	t.Helper()
	for again := true; again; {
		w := left
		if again = s.beside == (op{}) && (g.starts == nil || g.starts[s.name]); again {
			if g.copy != nil {
				w = left.copy(t, g)
			} else if count > 0 {
				w = g.world(t, s)
				g.die(t, w, s, n, s.call.do == "open")
			}
			if _, again, _ = g.die(t, w, scene{call: op{do: "open"}}, count+1, true); again {
				count++
			}
		}
		if g.mended(t, w, s, answer); t.Failed() {
			t.Fatalf("killed at step %d, and the start after that at its step %d", n, count)
		}
	}
	return count
}

// A world is a pool that no process has open, and what its callers know of it.
type world struct {
	*account
	path  string
	limit record.QuotaPolicy
}

// world is as the scene begins.
func (g ground) world(t *testing.T, s scene) *world {
	t.Helper()
	w := &world{newAccount(), g.path(t), g.limit}
	if s.call.do == "open" {
		return w
	}
	p := opened(t, keeping(volume.Config{Path: w.path}))
	for _, o := range append([]op{{"create", "bystander", size}}, s.prepare...) {
		if _, err := w.do(p, o); err != nil {
			t.Fatalf("%v: %v", o, err)
		}
	}
	ok(t, p.Close())
	return w
}

func (w *world) copy(t *testing.T, g ground) *world {
	t.Helper()
	other := &world{w.clone(), w.path + "-left", w.limit}
	g.copy(t, w.path, other.path)
	return other
}

// do makes a call and notes what came of it.
func (w *world) do(p *volume.Pool, o op) (answer string, err error) {
	w.asked(o)
	answer, err = o.call(p, w.limit)
	w.told(o, err)
	return answer, err
}

// mended opens the pool that was left, and makes the call again: it succeeds, with the same
// result as without a kill.
func (g ground) mended(t *testing.T, w *world, s scene, answer string) {
	t.Helper()
	p := opened(t, keeping(volume.Config{Path: w.path}))
	if g.settle != nil {
		ok(t, p.Close())
		g.settle()
		p = opened(t, keeping(volume.Config{Path: w.path}))
	}
	defer p.Close()
	g.held(t, w, p)
	for _, f := range g.swept() {
		t.Errorf("%s: %s", f.kind, f.text)
	}
	again, err := w.do(p, s.call)
	if err != nil || again != answer && s.call.do != "open" {
		t.Errorf("%v again: %q, %v; want %q", s.call, again, err, answer)
	}
	g.held(t, w, p)
	purge(t, p)
	g.held(t, w, p)
}

func (g ground) held(t *testing.T, w *world, p *volume.Pool) {
	t.Helper()
	for _, f := range append(append(w.held(p), unsound(p)...), g.limits(p)...) {
		t.Errorf("%s: %s", f.kind, f.text)
	}
}
