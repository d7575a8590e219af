package layout

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// A pool that moves, and one that takes the path of another, are offered in two rollouts: agents that
// are not replaced yet create volumes in the former place, and PVs of the CSI driver do not show
// where theirs is. After the first rollout no agent offers the former pool. Then its volumes are
// counted: if there is one, it stays.

// running is what an agent offers, or may offer.
type running struct {
	poolrecord.PodOffer
	// where names the agent.
	where string
}

// may reports whether the agent may create volumes in the pool.
func (r running) may(p poolrecord.Pool) bool {
	return r.Unreadable || slices.ContainsFunc(r.Pools, func(q poolrecord.Pool) bool { return q.Name == p.Name })
}

// offeredNow returns what the agents' DaemonSet and the pods in its namespace offer. Users can
// change both, so this only delays.
func offeredNow(ctx context.Context, from installed.Reader) (all []running, err error) {
	ds, err := from.DaemonSet(ctx)
	if err != nil {
		return nil, err
	}
	if ds != nil {
		offer := poolrecord.OfferOf(ds.Spec.Template.Spec)
		// Kubernetes may still create a pod of an earlier template.
		offer.Unreadable = offer.Unreadable || ds.Status.ObservedGeneration != ds.Generation
		all = append(all, running{offer, "new agents"})
	}
	pods, err := from.Pods(ctx)
	for _, pod := range pods {
		if !contract.PodEnded(&pod) {
			all = append(all, running{poolrecord.OfferOf(pod.Spec), whereOf(&pod)})
		}
	}
	return all, err
}

// insteadOf returns a pool that the agent offers, or may offer, at the path of the pool or by its name,
// and that is not the pool.
func (r running) insteadOf(to poolrecord.Pool) (p poolrecord.Pool, found bool) {
	if r.Unreadable {
		return to, true
	}
	i := slices.IndexFunc(r.Pools, func(q poolrecord.Pool) bool {
		return q != to && (q.Name == to.Name || q.Path == to.Path)
	})
	if i < 0 {
		return p, false
	}
	return r.Pools[i], true
}

func whereOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "pod " + pod.Name
	}
	return pod.Spec.NodeName
}

// formerly returns the pools of before that the pool replaces: itself at another place, and others at
// its path.
func formerly(had poolrecord.Offer, record *poolrecord.Record,
	to poolrecord.Pool) (all []poolrecord.Pool) {
	for _, p := range had.Pools {
		if p != to && (p.Name == to.Name || p.Path == to.Path) {
			all = append(all, p)
		}
	}
	return append(all, mountedAt(record, to)...)
}

// mountedAt returns the pools whose disks are mounted at the pool's path, by the record: others, and the
// pool itself if it is not on claims any more.
func mountedAt(record *poolrecord.Record, to poolrecord.Pool) (all []poolrecord.Pool) {
	for _, h := range record.Holders {
		p := poolrecord.Pool{Name: h.Pool, Path: h.Path, Mount: h.Path}
		if h.Path == to.Path && (h.Pool != to.Name || to.Mount == "") && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// mounted returns the pools whose disks are mounted at the paths of the layout's, and that are not these.
func (l *Layout) mounted(record *poolrecord.Record) (all []poolrecord.Pool) {
	for _, to := range l.Pools {
		all = append(all, mountedAt(record, to)...)
	}
	return all
}

// wait leaves out the pools that replace others while an agent may create volumes in these, or their
// disks are mounted there. It describes who delays them.
func (l *Layout) wait(had poolrecord.Offer, agents []running) {
	l.Pools = slices.DeleteFunc(l.Pools, func(to poolrecord.Pool) bool {
		if len(formerly(had, l.Record, to)) == 0 {
			return false
		}
		what, who := "", []string{}
		for _, agent := range agents {
			if p, found := agent.insteadOf(to); found {
				what = fmt.Sprintf("no agent offers pool %s at %s any more", p.Name, filepath.Dir(p.Path))
				who = append(who, agent.where)
			}
		}
		if mounted := mountedAt(l.Record, to); len(who) == 0 && len(mounted) > 0 {
			what, who = "the disk of pool "+mounted[0].Name+" is unmounted there", l.nodesOf(mounted[0])
		}
		if len(who) == 0 {
			return false
		}
		l.Waiting = append(l.Waiting, fmt.Sprintf("pool %s is offered at %s as soon as %s: %s", to.Name,
			filepath.Dir(to.Path), what, events.Names(who, events.Listed)))
		return true
	})
	l.waitForPVDir(had, agents)
	l.Retained = append(l.Retained, l.Waiting...)
}

// waitForPVDir does the same for the directory of hostPath volumes.
func (l *Layout) waitForPVDir(had poolrecord.Offer, agents []running) {
	if l.PVDir == "" || had.PVDir == "" || l.PVDir == had.PVDir {
		return
	}
	var who []string
	for _, agent := range agents {
		if agent.Unreadable || agent.PVDir == had.PVDir {
			who = append(who, agent.where)
		}
	}
	if len(who) > 0 {
		l.Waiting = append(l.Waiting, fmt.Sprintf("hostPath volumes are made in %s as soon as no agent makes them in %s any "+
			"more: %s", l.PVDir, had.PVDir, events.Names(who, events.Listed)))
		l.PVDir, l.Prefix = "", false
	}
}

// nodesOf returns the nodes on which the record has the disk of the pool.
func (l *Layout) nodesOf(p poolrecord.Pool) (nodes []string) {
	for _, h := range l.Record.Holders {
		if h.Pool == p.Name && h.Path == p.Path {
			nodes = append(nodes, h.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
