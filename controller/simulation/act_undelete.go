package simulation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/recovery"
)

// undeleteActs are what an administrator does with deleted volumes that pools keep.
var undeleteActs = []act{
	{words: "undelete", usage: "NAME: an administrator brings a deleted volume of the claim back", weight: 2, next: []string{"delete claim", "recover", "undelete", "namespace again"},
		draw: func(w *World) []string { return w.aKeptClaim() },
		do:   func(w *World, args []string) bool { return w.undelete(arg(args, 0), kuberecovery.Options{}, false) }},
	{words: "undelete to", usage: "NAME: he says that it is for the namespace as it is now", weight: 1, next: []string{"delete claim"},
		draw: func(w *World) []string { return w.aKeptClaim() },
		do: func(w *World, args []string) bool {
			return w.undelete(arg(args, 0), kuberecovery.Options{ToNamespace: tenant}, false)
		}},
	{words: "undelete killed", usage: "NAME: he brings it back, and the command is killed before it makes PV and claim", weight: 1, next: []string{"recover"},
		draw: func(w *World) []string { return w.aKeptClaim() },
		do:   func(w *World, args []string) bool { return w.undelete(arg(args, 0), kuberecovery.Options{}, true) }},
	nodeAct("agent retains", " DURATION: its agent starts again, and keeps deleted volumes for so long", 2, (*node).runs,
		func(w *World, n *node, args []string) bool {
			if _, ok := duration(arg(args, 0)); !ok || w.kind != ofAgents {
				return false
			}
			return w.restart(n, append(withoutRetention(n.flags), retentionFlag+args[0]))
		}).with(func(w *World) string { return pick(w, []string{"30m", "1h", "6h"}) }).then("delete claim", "undelete"),
}

// retentionFlag begins the flag of an agent that keeps deleted volumes.
const retentionFlag = "--trash-retention="

func withoutRetention(flags []string) (left []string) {
	for _, f := range flags {
		if !strings.HasPrefix(f, retentionFlag) {
			left = append(left, f)
		}
	}
	return left
}

// retention returns for how long the node's agent keeps deleted volumes.
func (n *node) retention() time.Duration {
	for _, f := range n.flags {
		if text, is := strings.CutPrefix(f, retentionFlag); is {
			d, _ := duration(text)
			return d
		}
	}
	return 0
}

// aKeptClaim draws the claim of a volume that a pool keeps.
func (w *World) aKeptClaim() []string {
	var names []string
	for _, n := range w.nodes {
		for _, k := range w.keptOn(n) {
			if k.Namespace == tenant {
				names = append(names, k.Claim)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{pick(w, sorted(names))}
}

func (w *World) keptOn(n *node) []kuberecovery.Kept {
	if !n.runs() || n.agent.agent == nil {
		return nil
	}
	all, err := n.agent.agent.Undeleter().List(ctx)
	if err != nil {
		return nil
	}
	return all
}

// undelete does what kubectl hpp undelete --yes does with the volume of the claim that was deleted last.
func (w *World) undelete(claim string, o kuberecovery.Options, killed bool) bool {
	var last kuberecovery.Kept
	var on *node
	for _, n := range w.nodes {
		for _, k := range w.keptOn(n) {
			if k.Namespace == tenant && k.Claim == claim && !k.Deleted.Before(last.Deleted) {
				last, on = k, n
			}
		}
	}
	if on == nil {
		return false
	}
	u := on.agent.agent.Undeleter()
	request := agentrecovery.Request{Named: orphans.Named{Pool: last.PoolUUID, Name: last.Name, Created: last.Created, Trash: last.ID}, Options: o}
	planned, err := u.Plan(ctx, request)
	if err != nil {
		return false
	}
	r := &recovery.Recovery{Client: w.god, Options: o}
	all, err := r.Decide(ctx, []agents.Planned{{Agent: cluster.Agent{Node: on.name}, Plan: kuberecovery.Plan{Volumes: []kuberecovery.Volume{planned}}}})
	if err != nil || len(all) != 1 || all[0].Verdict != kuberecovery.Made {
		return false
	}
	w.judge.undeletes(all[0], o.ToNamespace != "")
	done := make(chan error, 1) // an agent that is killed halfway never answers
	go func() {
		_, err := u.Undelete(ctx, request)
		done <- err
	}()
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		return true
	}
	if all[0].Kept = ""; killed || err != nil {
		return true
	}
	r.Apply(ctx, all)
	w.finish(r, all)
	return true
}

// undeletes notes that a deleted volume comes back. It must be for the claim that it had, and for the same
// tenant unless a person says that the one of now may have it.
func (j *judge) undeletes(made *recovery.Volume, anyTenant bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if j.place(v) != filepath.Join(made.Pool, made.Name) || v.wanted == "" || v.mark == "" || !j.isKept(v) {
			continue
		}
		if name := made.Namespace + "/" + made.Claim; name != v.name {
			j.blameLocked("BYTES", "the deleted volume of claim %s comes back for claim %s", v.name, name)
		}
		if anyTenant {
			v.tenant = j.tenant
		}
		j.sameTenant(v, "undeleted")
		v.undeleted, v.wanted, v.recovered, v.kept, v.keptFor = v.wanted, "", true, time.Time{}, 0
	}
}

// keptBytes judges that what a pool keeps stays for as long as its agent was told. Disks are never full
// here, so nothing is removed for room. The caller holds the lock.
func (j *judge) keptBytes() {
	for _, v := range j.volumes {
		if v.undeleted != "" && v.wanted == "" && j.isKept(v) { // it did not come back
			v.wanted, v.recovered = v.undeleted, false
		}
		v.undeleted = ""
		n := j.world.node(v.node)
		if v.mark == "" || v.wanted == "" || n == nil || v.disk != "" {
			continue
		}
		there := j.isKept(v)
		switch {
		case v.kept.IsZero() && there && v.keptFor == 0:
			v.kept, v.keptFor = j.looked, n.retention() // it was deleted since then
		case v.kept.IsZero():
		case n.retention() < v.keptFor || n.second != nil:
			v.kept, v.keptFor = time.Time{}, -1 // people want it to go sooner: the second agent keeps nothing
		case !there && time.Since(v.kept) < v.keptFor:
			j.blameLocked("KEPT", "the deleted volume of claim %s is gone %s after the deletion, and was to be kept for %s", v.name,
				time.Since(v.kept).Truncate(time.Second), v.keptFor)
			v.kept, v.keptFor = time.Time{}, -1
		case !there:
			v.kept, v.keptFor = time.Time{}, -1
		}
	}
	j.looked = time.Now()
}

// isKept reports whether the pool keeps the data of a deleted volume.
func (j *judge) isKept(v *volume) bool { return j.isIn(v, "kept") }

// isIn reports whether a private directory of the pool has the data of a volume.
func (j *judge) isIn(v *volume, private string) bool {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(j.place(v)), ".hostpath-provisioner", private, "*", dataFile))
	return slices.ContainsFunc(found, func(file string) bool {
		have, err := os.ReadFile(file)
		return err == nil && string(have) == v.mark
	})
}
