package volume_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// An olderAgent is what one does on a node to which a newer one gave its pools: it knows neither kept/ nor
// the newer keys of a record.
type olderAgent struct {
	path string
	t    *testing.T
}

// rewrites writes each record again, as for a PV that is bound. The keys that it does not know go.
func (o olderAgent) rewrites() {
	o.t.Helper()
	for _, name := range names(o.t, filepath.Join(o.path, records)) {
		file := filepath.Join(o.path, records, name)
		data, err := os.ReadFile(file)
		ok(o.t, err)
		if strings.HasPrefix(name, ".") || len(data) == 0 { // a write that was killed
			continue
		}
		keys := map[string]any{}
		ok(o.t, json.Unmarshal(data, &keys))
		for _, newer := range []string{"claim", "leftOut", "returning", "trashRetention"} {
			delete(keys, newer)
		}
		data, err = json.Marshal(keys)
		ok(o.t, err)
		ok(o.t, os.WriteFile(file, data, 0o600))
	}
}

// purges empties the trash.
func (o olderAgent) purges() {
	o.t.Helper()
	ok(o.t, os.RemoveAll(filepath.Join(o.path, trash)))
	mkdir(o.t, filepath.Join(o.path, trash))
}

// ends deletes the volumes whose directory is missing, as their PVs ask: their records go.
func (o olderAgent) ends() {
	o.t.Helper()
	for _, name := range names(o.t, filepath.Join(o.path, records)) {
		if !there(filepath.Join(o.path, name)) {
			ok(o.t, os.Remove(filepath.Join(o.path, records, name)))
		}
	}
}

// Between any two steps by which a volume is kept, brought back or removed an older agent may run. The
// data of a volume whose end was not decided stays, in place or kept, and nothing is there twice.
func TestOlderAgentBetweenStepsOfKept(t *testing.T) {
	for _, s := range []scene{
		{name: "keep", prepare: []op{keepV, fillV, boundV, claimV}, call: deleteV, least: 6},
		{name: "undelete", prepare: []op{keepV, fillV, boundV, claimV, deleteV}, call: undeleteV, least: 10},
		{name: "drop", prepare: []op{keepV, fillV, boundV, deleteV}, call: op{do: "drop", name: "v"}, least: 2},
		{name: "drop and purge", prepare: []op{keepV, fillV, boundV, deleteV}, call: op{do: "drop and purge", name: "v"}, least: 15},
	} {
		for what, runs := range map[string]func(olderAgent){
			"starts and purges": func(o olderAgent) { o.purges() },
			"binds":             func(o olderAgent) { o.rewrites(); o.purges() },
			"ends what it lost": func(o olderAgent) { o.rewrites(); o.ends(); o.purges() },
		} {
			t.Run(s.name+"/"+what, func(t *testing.T) {
				t.Parallel()
				g := ground{path: func(t *testing.T) string { return filepath.Join(t.TempDir(), "pool") }}
				n := 1
				for ; ; n++ {
					w := g.world(t, s)
					_, died, _ := dieHere(t, w, s, n, false)
					if !died {
						break
					}
					runs(olderAgent{w.path, t})
					afterOlder(t, w.path, s.call.do, what == "ends what it lost")
					if t.Failed() {
						t.Fatalf("killed before step %d, and the older agent %s", n, what)
					}
				}
				if n-1 < s.least {
					t.Errorf("killed at %d steps, want %d at the least", n-1, s.least)
				}
			})
		}
	}
}

// afterOlder starts on what an older agent left of volume v. A volume whose deletion it ended may go, as
// may one that is removed; any other has its data, and can be used.
func afterOlder(t *testing.T, path, call string, ended bool) {
	t.Helper()
	c := keeping(volume.Config{Path: path, TrashRetention: time.Hour})
	p := opened(t, c)
	defer func() { p.Close() }()
	mayGo := call == "drop" || call == "drop and purge" || call == "delete" && ended
	for range 2 {
		data := func(at ...string) bool { return there(filepath.Join(append(at, "a", "b", "data")...)) }
		v, err := p.Get("v")
		inPlace := err == nil && !v.Missing && data(v.Path)
		found := 0
		if inPlace {
			found++
		}
		for _, k := range p.Kept() {
			if k.Why != "" {
				t.Errorf("in doubt: %s", k.Why)
			}
			if data(path, keptDir, k.ID) {
				found++
			}
		}
		for _, r := range p.SetAside() {
			if r.Name == "v" && data(path, keptDir, r.Trash) {
				found++
			}
		}
		if found > 1 || found == 0 && !mayGo {
			t.Errorf("the data is there %d times; volume %+v, %v; kept %+v; set aside %+v", found, v.Record, err, p.Kept(), p.SetAside())
		}
		if b, err := p.Get("bystander"); err != nil || b.Missing {
			t.Errorf("the bystander: %+v, %v", b, err)
		}
		purge(t, p)
		ok(t, p.Close())
		p = opened(t, c)
	}
	finishOlder(t, p)
}

// finishOlder brings back what is kept or set aside, and deletes it for good: nothing is left of it.
func finishOlder(t *testing.T, p *volume.Pool) {
	t.Helper()
	for _, r := range p.SetAside() {
		ok(t, p.Restore(r.Name))
	}
	for _, k := range p.Kept() {
		_, err := p.Undelete(k.ID)
		ok(t, err)
	}
	if v, err := p.Get("v"); err == nil {
		if data, err := os.ReadFile(filepath.Join(v.Path, "a", "b", "data")); string(data) != "x" || v.State != record.Bound {
			t.Errorf("came back as %+v with %q, %v", v.Record, data, err)
		}
		ok(t, p.Delete("v"))
	}
	for _, k := range p.Kept() {
		ok(t, p.DropKept(k.ID))
	}
	purge(t, p)
	consistent(t, p)
	for _, dir := range []string{trash, keptDir} {
		if there(filepath.Join(p.Path(), dir)) && len(names(t, filepath.Join(p.Path(), dir))) > 0 {
			t.Errorf("%s has %q", dir, names(t, filepath.Join(p.Path(), dir)))
		}
	}
}
