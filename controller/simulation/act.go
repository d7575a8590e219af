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
	// next are acts that often follow, about the same thing: people go on with what was begun.
	next []string
}

// acts are those that a seed may draw; all words are carried out.
func acts() []act {
	return slices.Concat(claimActs, copyActs, nodeActs, agentActs, serverActs, peopleActs, changeActs, restoreActs, backupActs, recoverActs, undeleteActs, tenantActs, rawActs, operatorActs)
}

// actOf returns the act that a step begins with, and the arguments.
func actOf(step string) (act, []string, error) {
	var found act
	for _, a := range slices.Concat(acts(), waitActs) {
		if (step == a.words || strings.HasPrefix(step, a.words+" ")) && len(a.words) > len(found.words) {
			found = a
		}
	}
	if found.words == "" {
		return act{}, nil, fmt.Errorf("%q begins with the words of no act", step)
	}
	return found, strings.Fields(strings.TrimPrefix(step, found.words)), nil
}

// waitActs let time pass.
var waitActs = []act{{words: "wait", usage: "DURATION", do: func(w *World, args []string) bool {
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 || len(args) != 1 {
		return false
	}
	w.sleep(d)
	return true
}}, {words: "wait write", usage: "DURATION: until a process writes a claim or a PV, but no longer than that", do: func(w *World, args []string) bool {
	d, ok := duration(arg(args, 0))
	if ok {
		w.sleepUntil(time.After(d), w.judge.written())
	}
	return ok
}}}

// sleep lets time pass. An agent that is killed meanwhile is started again ten seconds later, as the
// kubelet does.
func (w *World) sleep(d time.Duration) { w.sleepUntil(time.After(d), nil) }

func (w *World) sleepUntil(end <-chan time.Time, sooner <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case <-sooner:
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
	before := len(w.trace)
	w.say("%s", step)
	if done = a.do(w, args); !done {
		w.trace = w.trace[:before]
	}
	return done
}

// arg returns an argument; a step with too few is left out.
func arg(args []string, i int) string {
	if i >= len(args) {
		panic("args")
	}
	return args[i]
}
