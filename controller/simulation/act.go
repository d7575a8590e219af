package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// act is something that happens to the cluster. A step is the act's words, then its arguments.
type act struct {
	words string
	// usage names the arguments and says what happens.
	usage string
	// weight is how often the act is drawn, beside others.
	weight int
	// draw returns arguments that fit now, nil if nothing does.
	draw func(w *World) []string
	// do carries the act out. It returns false, and changes nothing, if the arguments do not fit now:
	// a run from which steps were left out goes on without it.
	do func(w *World, args []string) bool
	// next is the act that often follows, with the same arguments: people go on with what was begun.
	next string
}

// acts are those that a seed may draw; all words are carried out.
func acts() []act {
	return slices.Concat(claimActs, nodeActs, agentActs, serverActs, peopleActs, changeActs, restoreActs, rawActs, operatorActs)
}

// actOf returns the act that a step begins with, and the arguments.
func actOf(step string) (act, []string, error) {
	var found act
	for _, a := range append(acts(), waitAct) {
		if (step == a.words || strings.HasPrefix(step, a.words+" ")) && len(a.words) > len(found.words) {
			found = a
		}
	}
	if found.words == "" {
		return act{}, nil, fmt.Errorf("%q begins with the words of no act", step)
	}
	return found, strings.Fields(strings.TrimPrefix(step, found.words)), nil
}

// waitAct lets time pass.
var waitAct = act{words: "wait", usage: "DURATION", do: func(w *World, args []string) bool {
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 || len(args) != 1 {
		return false
	}
	w.sleep(d)
	return true
}}

// sleep lets time pass. An agent that is killed meanwhile is started again ten seconds later, as the
// kubelet does.
func (w *World) sleep(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case <-end:
			return
		case <-w.died:
			time.Sleep(10 * time.Second)
			w.revive()
		}
	}
}

// take carries out one step, and judges.
func (w *World) take(step string) (done bool) {
	a, args, err := actOf(step)
	must(err)
	defer func() {
		if r := recover(); r != nil {
			if fmt.Sprint(r) != "args" {
				panic(r)
			}
			done = false
		}
	}()
	w.revive()
	w.raw.revive()
	w.say("%s", step)
	return a.do(w, args)
}

// arg returns an argument; a step with too few is left out.
func arg(args []string, i int) string {
	if i >= len(args) {
		panic("args")
	}
	return args[i]
}

// drawer draws the steps of a run.
type drawer struct {
	*World
	on      []act    // those that this run uses
	longest int      // of the pauses, by index
	last    []string // the subject of the last act
	follow  string   // what may follow
	rawRun  bool     // about raw disks
}

var pauses = []string{"1s", "5s", "30s", "2m", "10m", "1h"}

// newDrawer gives each run a tempo of its own, and leaves some acts out: runs of few acts find long
// sequences.
func newDrawer(w *World) *drawer {
	d := &drawer{World: w, longest: 3 + w.rnd.IntN(len(pauses)-2)}
	for _, a := range d.ofRun() {
		if a.weight > 0 && (a.words == "claim" || a.words == "raw claim" || w.rnd.IntN(3) > 0) {
			d.on = append(d.on, a)
		}
	}
	if w.rnd.IntN(2) == 0 { // few acts, often
		w.rnd.Shuffle(len(d.on), func(i, k int) { d.on[i], d.on[k] = d.on[k], d.on[i] })
		d.on = d.on[:min(len(d.on), 4+w.rnd.IntN(4))]
	}
	return d
}

// prelude are the steps with which a run begins: each node gets volumes in each pool.
func (d *drawer) prelude() (steps []string) {
	if d.rawRun {
		return d.rawPrelude()
	}
	all := pools
	if d.rnd.IntN(2) == 0 {
		steps = []string{"install a=/a " + pick(d.World, []string{"b=/b+claim", "b=/b+claim", "b=/b"}), "wait 2m"}
		all = pick(d.World, [][]string{{"a", "b"}, {"a"}, {"b"}}) // a pool without volumes may be changed
		for _, a := range operatorActs {
			if a.weight > 0 && d.rnd.IntN(2) == 0 {
				d.on = append(d.on, a)
			}
		}
	}
	for _, n := range d.nodes {
		for _, pool := range all {
			class := pool
			if pool != "hp" {
				class += "-" + pick(d.World, []string{"keep", "keep", "release", "delete"})
			}
			steps = append(steps, fmt.Sprintf("claim %s %s %s 1Mi", d.newName(), n.name, class))
		}
	}
	return append(steps, "wait 1m")
}

// step draws the next act and the pause after it.
func (d *drawer) step() []string {
	for range 50 {
		a := d.pickAct()
		var args []string
		if d.last != nil && (a.words == d.follow || d.rnd.IntN(3) == 0) { // people act on what just happened
			args = a.like(d.World, d.last)
		}
		if args == nil {
			args = a.draw(d.World)
		}
		if args == nil {
			continue
		}
		d.last, d.follow = args, a.next
		return []string{strings.Join(append([]string{a.words}, args...), " "), "wait " + pauses[d.rnd.IntN(d.longest)]}
	}
	return []string{"wait 1m"}
}

func (d *drawer) pickAct() act {
	if d.follow != "" && d.rnd.IntN(2) == 0 {
		for _, a := range d.on {
			if a.words == d.follow {
				return a
			}
		}
	}
	sum := 0
	for _, a := range d.on {
		sum += a.weight
	}
	for n := d.rnd.IntN(max(sum, 1)); ; {
		for _, a := range d.on {
			if n -= a.weight; n < 0 {
				return a
			}
		}
	}
}

// like draws arguments until they name the subject of the last act, nil if none of a few does.
func (a act) like(w *World, last []string) []string {
	for range 8 {
		if args := a.draw(w); len(args) > 0 && len(last) > 0 && args[0] == last[0] {
			return args
		}
	}
	return nil
}

func pick[T any](w *World, all []T) T { return all[w.rnd.IntN(len(all))] }
