package simulation

import (
	"slices"
	"strconv"
	"strings"
)

// agentActs are what happens to processes.
var agentActs = []act{
	nodeAct("agent restart", " [FLAG...]: its agent ends and starts, with other flags if there are any", 2, (*node).runs,
		func(w *World, n *node, flags []string) bool {
			return all(flags, func(f string) bool { return strings.HasPrefix(f, "--") }) && w.restart(n, flags)
		}),
	nodeAct("migrate", " run|back|off: its agent replaces hostPath PVs by CSI PVs, or back", 1, (*node).runs,
		func(w *World, n *node, args []string) bool {
			return w.restart(n, []string{"--migrate-to-csi=" + arg(args, 0)})
		}).
		with(func(w *World) string { return pick(w, []string{"run", "back", "off"}) }),
	nodeAct("agent kill before write", " N: killed before its N-th write to the API server from now", 2, (*node).runs,
		func(w *World, n *node, args []string) bool { return w.killAtWrite(n, args, false) }).with(upTo(6)),
	nodeAct("agent kill after write", " N: killed when that write took effect, before it knows", 2, (*node).runs,
		func(w *World, n *node, args []string) bool { return w.killAtWrite(n, args, true) }).with(upTo(6)),
	nodeAct("agent kill before step", " N: killed before its N-th change to a disk from now", 2, (*node).runs,
		func(_ *World, n *node, args []string) bool {
			nth := number(arg(args, 0))
			n.agent.stopAt.Store(n.agent.steps.Load() + nth)
			return nth > 0
		}).with(upTo(20)),
	{words: "operator restart", usage: "", weight: 1,
		draw: func(*World) []string { return []string{} },
		do: func(w *World, _ []string) bool {
			switch i := w.inst.Load(); {
			case i != nil:
				i.operate(i.version)
			case w.kind != ofInstalled:
				w.restartLostNodes()
			}
			return true
		}},
	{words: "watch late", usage: "PROGRAM DURATION: what agent/NODE or operator watches is late by that", weight: 2,
		draw: func(w *World) []string {
			return []string{pick(w, []string{"operator", "agent/" + pick(w, w.nodes).name}), pick(w, lags)}
		},
		do: func(w *World, args []string) bool {
			d, ok := duration(arg(args, 1))
			w.faults.mu.Lock()
			defer w.faults.mu.Unlock()
			w.faults.lag[arg(args, 0)] = d
			return ok
		}},
}

var lags = []string{"0s", "1s", "5s", "15s", "1m"}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

func number(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }

func upTo(most int) func(*World) string {
	return func(w *World) string { return strconv.Itoa(1 + w.rnd.IntN(most)) }
}

// restart starts an agent anew, with other flags if there are any. The operator gives its agents theirs.
func (w *World) restart(n *node, flags []string) bool {
	if len(flags) > 0 && w.inst.Load() != nil {
		return false
	}
	w.stopAgent(n)
	if len(flags) > 0 {
		n.flags = slices.Clone(flags)
	}
	w.startAgent(n)
	return true
}

func (w *World) killAtWrite(n *node, args []string, after bool) bool {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.faults.kill = &killPoint{who: n.agent, nth: int(number(arg(args, 0))), after: after}
	return true
}
