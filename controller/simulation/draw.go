package simulation

import (
	"fmt"
	"slices"
	"strings"
)

// drawer draws the steps of a run.
type drawer struct {
	*World
	on      []act    // those that this run uses
	longest int      // of the pauses, by index
	about   []string // what the last act was about
	next    []string // what may follow
	drawn   map[string]int
}

// runKind is what a run is about. Processes that others need do not run.
type runKind int

const (
	ofAgents    runKind = iota // agents by manifests, and the part of the operator for lost nodes
	ofInstalled                // the operator whole
	ofRawDisks                 // agents of disks, and the same part of the operator
)

// runKinds are the names of the kinds.
var runKinds = []string{"agents", "operator", "disks"}

// kindOf returns the kind of a run by words.
func kindOf(words []string) runKind {
	begins := func(with string) bool {
		return slices.ContainsFunc(words, func(step string) bool { return strings.HasPrefix(step, with) })
	}
	switch {
	case begins("install "):
		return ofInstalled
	case begins("raw offer ") && !begins("claim "):
		return ofRawDisks
	}
	return ofAgents
}

// kinds has each kind as often as it takes to give it a third of the time.
var kinds = []runKind{ofAgents, ofAgents, ofAgents, ofInstalled, ofInstalled, ofRawDisks, ofRawDisks, ofRawDisks}

// pauses of people. Those of minutes are about the grace period, after which the product acts.
var pauses = []string{"1s", "5s", "30s", "2m", "5m30s", "1h"}

// newDrawer gives each run a tempo of its own, and leaves some acts out: runs of few acts find long
// sequences.
func newDrawer(w *World) *drawer {
	d := &drawer{World: w, longest: 3 + w.rnd.IntN(len(pauses)-2), drawn: map[string]int{}}
	w.gone = pick(w, []string{"", "keep", "release", "release", "delete"})
	for range 3 {
		w.diskKinds = append(w.diskKinds, pick(w, rawKinds))
	}
	all := d.ofKind()
	if w.rnd.IntN(3) == 0 {
		d.on = slices.DeleteFunc(all, func(a act) bool { return !strings.HasSuffix(a.words, "claim") && w.rnd.IntN(3) == 0 })
	} else {
		d.on = d.few(all, 4+w.rnd.IntN(6))
	}
	return d
}

// few returns some acts, and those that often follow them.
func (d *drawer) few(all []act, most int) (some []act) {
	some = slices.DeleteFunc(slices.Clone(all), func(a act) bool { return !strings.HasSuffix(a.words, "claim") || d.rnd.IntN(2) == 0 })
	for len(some) < min(most, len(all)) {
		for a := pick(d.World, all); a.words != ""; a = pick(d.World, append(followers(all, a), act{})) {
			if slices.ContainsFunc(some, func(b act) bool { return a.words == b.words }) {
				break
			}
			some = append(some, a)
		}
	}
	return some
}

// followers returns those of the acts that often follow one.
func followers(all []act, a act) []act {
	return slices.DeleteFunc(slices.Clone(all), func(b act) bool { return !slices.Contains(a.next, b.words) })
}

// ofKind returns the acts of a run.
func (d *drawer) ofKind() []act {
	nodes := d.rnd.IntN(6) == 0
	return slices.DeleteFunc(acts(), func(a act) bool {
		switch both := slices.Contains([]string{"delete claim", "manager late", "server refuses", "server forgets"}, a.words); {
		case a.weight == 0:
			return true
		case d.kind == ofRawDisks:
			nodes := nodes && slices.Contains([]string{"node delete", "node make", "node blink"}, a.words)
			return !both && !nodes && !strings.HasPrefix(a.words, "raw ")
		case strings.HasPrefix(a.words, "raw "):
			return true
		}
		if d.kind == ofInstalled {
			return slices.Contains([]string{"migrate", "orphans delete", "agent retains"}, a.words) // settings do that
		}
		return slices.ContainsFunc(operatorActs, func(o act) bool { return o.words == a.words })
	})
}

// prelude are the steps with which a run begins: each node gets volumes in each pool.
func (d *drawer) prelude() (steps []string) {
	all := pools
	switch d.kind {
	case ofRawDisks:
		return d.rawPrelude()
	case ofInstalled:
		layout := pick(d.World, []string{"b=/b+claim", "b=/b+claim", "b=/b+claim", "b=/b", "b=/b+claim c=/c", "b=/b+claim legacy=/hp"})
		steps = []string{"install a=/a " + layout, "wait 2m"}
		all = pick(d.World, [][]string{{"a", "b"}, {"a"}, {"b"}}) // a pool without volumes may be changed
	case ofAgents:
		if flags := pick(d.World, []string{"", "", orphansGo, "--migrate-to-csi=run", retentionFlag + "2h", orphansGo + " " + retentionFlag + "2h"}); flags != "" {
			for _, n := range d.nodes {
				steps = append(steps, "agent restart "+n.name+" "+flags)
			}
		}
	}
	if d.rnd.IntN(4) == 0 {
		steps = append(steps, "manager late "+pick(d.World, lags))
	}
	for _, n := range d.nodes {
		for _, pool := range all {
			steps = append(steps, fmt.Sprintf("claim %s %s %s 1Mi", d.newName(), n.name, d.classIn(pool)))
		}
	}
	return append(steps, "wait 1m")
}

// orphansGo are the flags of an agent that removes orphans soon.
const orphansGo = "--orphans=delete --orphan-grace=10m"

// classIn draws a class of the pool.
func (d *drawer) classIn(pool string) string {
	switch {
	case pool == "hp":
		return pool
	case d.gone != "":
		return pool + "-" + d.gone
	}
	return pool + "-" + pick(d.World, policies)
}

// step draws the next act.
func (d *drawer) step() string {
	for range 50 {
		a, follows := d.pickAct()
		var args []string
		if d.about != nil && (follows || d.rnd.IntN(2) == 0) { // people act on what just happened
			args = d.alike(a)
		}
		if args == nil {
			args = a.draw(d.World)
		}
		if args == nil {
			continue
		}
		d.drawn[a.words]++
		d.about, d.next = d.subject(args), a.next
		return strings.Join(append([]string{a.words}, args...), " ")
	}
	return "wait 1m"
}

// pause draws how long people wait, or that they see what a process did.
func (d *drawer) pause() string {
	if d.rnd.IntN(8) == 0 {
		return "wait write 10m"
	}
	return "wait " + pauses[min(d.rnd.IntN(d.longest), d.rnd.IntN(d.longest))]
}

// pickAct draws an act, often one that follows the last.
func (d *drawer) pickAct() (a act, follows bool) {
	if of := followers(d.on, act{next: d.next}); len(of) > 0 && d.rnd.IntN(2) == 0 {
		return pick(d.World, of), true
	}
	weight := func(a act) int { return 1 + 24*a.weight/(1+d.drawn[a.words]) } // what was rare so far
	sum := 0
	for _, a := range d.on {
		sum += weight(a)
	}
	for n := d.rnd.IntN(max(sum, 1)); ; {
		for _, a := range d.on {
			if n -= weight(a); n < 0 {
				return a, false
			}
		}
	}
}

// alike draws arguments a few times and returns those that have the most to do with the last act, nil
// if none has.
func (d *drawer) alike(a act) (best []string) {
	most := 0
	for range 8 {
		args := a.draw(d.World)
		same := 0
		for _, name := range d.subject(args) {
			if slices.Contains(d.about, name) {
				same++
			}
		}
		if same > most {
			best, most = args, same
		}
	}
	return best
}

// subject returns what arguments are about: what they name, and where that is.
func (w *World) subject(args []string) (all []string) {
	for i, a := range args {
		all = append(all, a)
		if n, pool := w.disk(a); n != nil && pool != "" {
			all = append(all, n.name)
		}
		if v := w.judge.volumeOfClaim(a); v != nil {
			all = append(all, v.node+"/"+v.pool, v.node)
		}
		if i > 0 && w.raw.nodes[args[0]] != nil {
			all = append(all, args[0]+"-"+a) // a slot
		}
		all = append(all, w.raw.places(a)...)
	}
	return all
}

func pick[T any](w *World, all []T) T { return all[w.rnd.IntN(len(all))] }
