package simulation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	nodeAct("agent older", ": an older version ran there meanwhile, whose records have no UIDs of PVs", 0, (*node).hasDisks,
		func(w *World, n *node, _ []string) bool {
			w.stopAgent(n)
			for _, pool := range pools {
				for _, e := range must1(os.ReadDir(n.records(pool))) {
					file, r := filepath.Join(n.records(pool), e.Name()), object{}
					must(json.Unmarshal(must1(os.ReadFile(file)), &r))
					delete(r, "pvUID")
					must(os.WriteFile(file, must1(json.Marshal(r)), 0o600))
				}
			}
			w.startAgent(n)
			return true
		}),
	{words: "deletion stops", usage: "CLAIM: its agent is killed while it deletes the volume, and the PV gets the policy Retain before the next life", weight: 1, next: []string{"delete pv", "agent restart"},
		draw: func(w *World) []string { return w.aClaim() },
		do:   func(w *World, args []string) bool { return w.stopDeletion(arg(args, 0)) }},
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

// records is the directory of a pool's records. The disk of the pool is there.
func (n *node) records(pool string) string {
	return filepath.Join(n.base, pool, ".hostpath-provisioner/records")
}

// stopDeletion leaves the volume of a claim as a deletion does that was begun and not decided: its
// directory is in the trash. Then its PV is to be kept.
func (w *World) stopDeletion(claim string) bool {
	v, pv := w.judge.volumeOfClaim(claim), w.pvOf(claim)
	if v == nil || pv == nil || w.inst.Load() != nil || pv.Status.Phase != corev1.VolumeBound || pv.DeletionTimestamp != nil ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return false
	}
	n := w.node(v.node)
	if n == nil || !n.runs() || !n.there() || !n.away[v.pool].IsZero() {
		return false
	}
	var record struct{ Trash string }
	data, err := os.ReadFile(filepath.Join(n.records(v.pool), v.dir))
	if err != nil || json.Unmarshal(data, &record) != nil || record.Trash == "" {
		return false
	}
	w.stopAgent(n)
	if os.Rename(w.judge.place(v), filepath.Join(n.records(v.pool), "../trash", record.Trash)) != nil {
		w.startAgent(n)
		return false
	}
	_, err = w.god.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{})
	must(err)
	w.deleteClaim(claim)
	w.startAgent(n)
	return true
}
