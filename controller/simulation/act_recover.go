package simulation

import (
	"context"
	"os"
	"path/filepath"
	"time"

	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/recovery"
)

// recoverActs are what an administrator does with volumes whose PVs and claims the cluster lost.
var recoverActs = []act{
	{words: "recover", usage: "an administrator recovers the volumes of the nodes whose agents run", weight: 2, next: []string{"delete claim", "recover"},
		draw: func(*World) []string { return []string{} },
		do:   func(w *World, _ []string) bool { return w.recover(false) }},
	{words: "recover killed", usage: "he recovers them, and the command is killed before the PVs get their policies back", weight: 1, next: []string{"recover"},
		draw: func(*World) []string { return []string{} },
		do:   func(w *World, _ []string) bool { return w.recover(true) }},
}

// recover does what kubectl hpp recover --all --yes does.
func (w *World) recover(killed bool) bool {
	plans := w.recoveryPlans()
	r := &recovery.Recovery{Client: w.god}
	all, err := r.Decide(ctx, plans)
	if err != nil || len(plans) == 0 {
		return false
	}
	for _, v := range all {
		if v.Verdict == kuberecovery.Made {
			w.judge.recovers(v)
		}
	}
	if r.Apply(ctx, all); !killed {
		w.finish(r, all)
	}
	return true
}

// finish waits until what was applied is Bound, a minute at the most, and gives the policies back.
func (w *World) finish(r *recovery.Recovery, all []*recovery.Volume) {
	w.sleep(time.Minute)
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r.Wait(within, all)
	r.Policies(within, all, func(context.Context) []agents.Planned { return w.recoveryPlans() })
}

// recovers notes that PV and claim of a volume are made again, which must be those that it had.
func (j *judge) recovers(made *recovery.Volume) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if j.place(v) != filepath.Join(made.Pool, made.Name) || v.wanted != "" && !j.inPlace(v) {
			continue
		}
		v.wanted = "" // its deletion was asked for, and had not begun
		if name := made.Namespace + "/" + made.Claim; name != v.name {
			j.blameLocked("BYTES", "the volume of claim %s is recovered for claim %s", v.name, name)
		}
		j.sameTenant(v, "recovered")
		v.recovered = true
	}
}

// inPlace reports whether the data of a volume is where it was.
func (j *judge) inPlace(v *volume) bool {
	have, err := os.ReadFile(filepath.Join(j.place(v), dataFile))
	return err == nil && v.mark != "" && string(have) == v.mark
}

// recoveryPlans are what the agents plan about the volumes of their pools.
func (w *World) recoveryPlans() (all []agents.Planned) {
	for _, n := range w.nodes {
		if !n.runs() || n.agent.agent == nil {
			continue
		}
		p := agents.Planned{Agent: cluster.Agent{Node: n.name}}
		planner := n.agent.agent.Recovery()
		for _, pool := range planner.Pools.All() {
			volumes, err := pool.List()
			if err != nil {
				continue
			}
			p.Pools = append(p.Pools, pool.ID())
			for _, v := range volumes {
				planned, err := planner.Volume(ctx, agentrecovery.Request{
					Named: orphans.Named{Pool: pool.ID(), Name: v.Name, Created: v.Created, Trash: v.Trash}})
				if err != nil {
					planned = kuberecovery.Volume{PoolUUID: pool.ID(), Name: v.Name, Problem: err.Error()}
				}
				p.Volumes = append(p.Volumes, planned)
			}
		}
		all = append(all, p)
	}
	return all
}
