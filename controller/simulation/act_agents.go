package simulation

import (
	"slices"
	"strconv"
	"strings"
)

// agentActs are what happens to processes.
var agentActs = []act{
	{words: "agent restart", usage: "NODE [FLAG...]: its agent ends and starts, with other flags if there are any", weight: 2,
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.agent != nil }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent == nil {
				return false
			}
			w.stopAgent(n)
			if n.flags = slices.Clone(args[1:]); !all(n.flags, func(f string) bool { return strings.HasPrefix(f, "--") }) {
				return false
			}
			w.startAgent(n)
			return true
		}},
	{words: "migrate", usage: "NODE on|back|off: its agent replaces hostPath PVs by CSI PVs, or back", weight: 1,
		draw: func(w *World) []string {
			if n := w.aNode(func(n *node) bool { return n.agent != nil }); n != nil {
				return append(n, pick(w, []string{"run", "back", "off"}))
			}
			return nil
		},
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent == nil {
				return false
			}
			w.stopAgent(n)
			n.flags = []string{"--migrate-to-csi=" + arg(args, 1)}
			w.startAgent(n)
			return true
		}},
	{words: "agent kill before write", usage: "NODE N: killed before its N-th write to the API server from now", weight: 2,
		draw: func(w *World) []string { return w.aKill(6) },
		do:   func(w *World, args []string) bool { return w.killAtWrite(args, false) }},
	{words: "agent kill after write", usage: "NODE N: killed when that write took effect, before it knows", weight: 2,
		draw: func(w *World) []string { return w.aKill(6) },
		do:   func(w *World, args []string) bool { return w.killAtWrite(args, true) }},
	{words: "agent kill before step", usage: "NODE N: killed before its N-th change to a disk from now", weight: 2,
		draw: func(w *World) []string { return w.aKill(20) },
		do: func(w *World, args []string) bool {
			n, nth := w.node(arg(args, 0)), number(arg(args, 1))
			if n == nil || n.agent == nil || nth < 1 {
				return false
			}
			n.agent.stopAt.Store(n.agent.steps.Load() + nth)
			return true
		}},
	{words: "operator restart", usage: "", weight: 1,
		draw: func(*World) []string { return []string{} },
		do: func(w *World, _ []string) bool {
			if i := w.inst.Load(); i != nil {
				i.operate(i.version)
			} else {
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

func (w *World) aKill(most int) []string {
	if n := w.aNode(func(n *node) bool { return n.agent != nil }); n != nil {
		return append(n, strconv.Itoa(1+w.rnd.IntN(most)))
	}
	return nil
}

func (w *World) killAtWrite(args []string, after bool) bool {
	n, nth := w.node(arg(args, 0)), number(arg(args, 1))
	if n == nil || n.agent == nil || nth < 1 {
		return false
	}
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.faults.kill = &killPoint{who: n.agent, nth: int(nth), after: after}
	return true
}
