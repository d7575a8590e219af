package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// fresh is for how long an answer counts as live before an unmount. One list serves the holders of all
// nodes of a pass.
const fresh = 5 * time.Second

// snapshot is what was read from the API server, the agents before the uses: an agent that offers a
// pool may create a volume between the two.
type snapshot struct {
	agents []agent
	// published is what agents published of the pools of their nodes, also of absent ones.
	published map[string]contract.NodePools
	uses      []identity.Use
	at        time.Time // the end of the lists
}

// agent is a pod that offers pools.
type agent struct {
	name, node string
	pools      []poolrecord.Pool
	// unreadable is set if it may offer any pool, because its settings cannot be read.
	unreadable bool
	deleted    bool
}

// agentOf returns what the pod of an agent offers, also one of the existing operator.
func agentOf(pod *corev1.Pod) agent {
	offer := poolrecord.OfferOf(pod.Spec)
	return agent{pod.Name, pod.Spec.NodeName, slices.Concat(offer.Pools, offer.Older), offer.Unreadable,
		pod.DeletionTimestamp != nil}
}

// MayEnd asks whether the holder may end. why is "" if it may. used is true if the disk is in use,
// or may be, and false if only an agent has to end.
func (p *Pass) MayEnd(ctx context.Context, h poolrecord.Holder, node *corev1.Node,
	w objects.Desired) (why string, used bool, err error) {
	at := identity.Holder{Pool: h.Pool, Path: h.Path, Node: h.Node}
	if node != nil {
		at.Hostname = node.Labels[corev1.LabelHostname]
	}
	if why, err := p.kept(ctx, h, at); why != "" || err != nil {
		return why, true, err
	}
	if err := p.readUses(ctx); err != nil {
		return "", false, err
	}
	delete(p.Blockers.of, placeOf(h))
	for _, at.Pool = range p.poolsAt(h) {
		if f := at.MayEnd(p.snapshot.uses); f.Answer != identity.Ours {
			p.blocks(h, at, f.Why)
			return f.Why, true, nil
		}
	}
	if why := p.snapshot.offered(h, w); why != "" {
		return why, false, nil
	}
	if node == nil {
		return p.open(ctx, h)
	}
	if !p.moves(h, w) {
		return "", false, nil
	}
	return p.mayMove(ctx, h)
}

// open describes the agent that may have the pool of an absent Node open, or returns "": the machine may
// run on, and be registered again, also with another name. What the agent of the Node published is
// removed after the grace period of lost nodes.
func (p *Pass) open(ctx context.Context, h poolrecord.Holder) (why string, used bool, err error) {
	for _, pool := range p.snapshot.published[h.Node].Pools {
		if pool.Open && pool.Path == h.Path {
			return fmt.Sprintf("node %s does not exist, and its agent may still have pool %s open",
				h.Node, pool.Name), false, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.snapshot.published)) {
		if name == h.Node || !p.snapshot.published[name].Opens(h.ID) {
			continue
		}
		if node, err := p.Node(ctx, name); node != nil || err != nil {
			return fmt.Sprintf("node %s does not exist, and node %s has pool %s open", h.Node, name, h.ID), false, err
		}
	}
	return "", false, nil
}

// poolsAt returns the pools whose volumes may be on the holder's disk: its own, and any other that
// the record or an agent of the node has at its path, where an earlier version let two pools meet. A
// PV of the driver names its pool alone.
func (p *Pass) poolsAt(h poolrecord.Holder) []string {
	names := []string{h.Pool}
	add := func(pools []poolrecord.Pool) {
		for _, q := range pools {
			if q.Path == h.Path && !slices.Contains(names, q.Name) {
				names = append(names, q.Name)
			}
		}
	}
	add(p.Record.Pools)
	for _, a := range p.snapshot.agents {
		if a.node == h.Node {
			add(a.pools)
		}
	}
	return names
}

// moves reports whether the holder's pool is wanted at another path, and none of its disks is
// mounted there yet.
func (p *Pass) moves(h poolrecord.Holder, w objects.Desired) bool {
	return slices.ContainsFunc(w.Pools, func(to objects.Pool) bool {
		at := func(other poolrecord.Holder) bool { return other.Pool == to.Name && other.Path == to.Path }
		return to.Name == h.Pool && to.Path != h.Path &&
			!slices.ContainsFunc(slices.Collect(maps.Values(p.Record.Holders)), at)
	})
}

// mayMove returns why the first disk of a pool stays where it is: an agent of any node offers the
// pool there, or created a volume before it was replaced. Two nodes would have volumes of the pool
// at two paths, and agents offer one. It does not wait for a deleted agent on a node that does not
// answer: the holder of that node stays.
func (p *Pass) mayMove(ctx context.Context, h poolrecord.Holder) (why string, used bool, err error) {
	for _, a := range p.snapshot.agents {
		offers := func(p poolrecord.Pool) bool { return p.Name == h.Pool && p.Path == h.Path }
		if !a.unreadable && !slices.ContainsFunc(a.pools, offers) {
			continue
		}
		node, err := p.Node(ctx, a.node)
		if err != nil {
			return "", false, err
		}
		if !a.deleted || node != nil && contract.NodeReady(node) {
			return "the agent has to end, pod " + a.name + ", which offers the pool there", false, nil
		}
	}
	for _, u := range p.snapshot.uses {
		if u.Pool == h.Pool {
			return "the pool has " + u.Object, true, nil
		}
	}
	return "", false, nil
}

// readUses reads the snapshot, unless this pass has read it.
func (p *Pass) readUses(ctx context.Context) error {
	if !p.snapshot.at.IsZero() {
		return nil
	}
	var s snapshot
	var own corev1.PodList
	if err := p.Live.List(ctx, &own, client.InNamespace(p.Namespace)); err != nil {
		return fmt.Errorf("list the pods of agents: %w", err)
	}
	for _, pod := range own.Items {
		if !contract.PodEnded(&pod) {
			s.agents = append(s.agents, agentOf(&pod))
		}
	}
	var published storagev1.CSIStorageCapacityList
	if err := p.Live.List(ctx, &published, client.InNamespace(p.Namespace)); err != nil {
		return fmt.Errorf("list what agents publish: %w", err)
	}
	s.published = contract.PublishedPools(published.Items)
	err := installed.EachPV(ctx, p.Live, func(pv *corev1.PersistentVolume) {
		if u, ok := identity.UseOfPV(pv); ok {
			s.uses = append(s.uses, u)
		}
	})
	if err != nil {
		return err
	}
	err = installed.EachPod(ctx, p.Live, func(pod *corev1.Pod) { s.uses = append(s.uses, identity.UsesOfPod(pod)...) })
	if err != nil {
		return err
	}
	s.at = p.Now()
	p.snapshot = s
	return nil
}

// offered describes an agent of the node that offers the holder's pool, or returns "". An agent's
// pod decides nothing else: it may be older than the resource, or users changed it.
func (s snapshot) offered(h poolrecord.Holder, w objects.Desired) string {
	moved := slices.ContainsFunc(w.Pools, func(to objects.Pool) bool { return to.Name == h.Pool && to.Path != h.Path })
	for _, a := range s.agents {
		if a.node != h.Node {
			continue
		}
		for _, p := range a.pools {
			switch {
			case p.Path == h.Path && p.Name != h.Pool:
				return fmt.Sprintf("the agent, pod %s, offers pool %s at that path; give pool %s another path", a.name, p.Name,
					p.Name)
			case p.Path == h.Path || p.Name == h.Pool && !moved:
				return "the agent has to end, pod " + a.name + ", which offers the pool"
			}
		}
		if a.unreadable {
			return "the agent has to end, pod " + a.name + ", whose pools cannot be read"
		}
	}
	return ""
}
