package nodegone

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
)

// place is what the facts about a node depend on, for all PVs with the same one.
type place struct{ node, hostname, pool string }

// reader reads the facts about each place once, and the agents of each node.
type reader struct {
	*Reconciler
	known    map[place]identity.NodeFacts
	agents   map[string]answer            // by the node's name
	onClaims func(pool, node string) bool // nil before the record is read
}

// answer is the agent of an absent Node; see Reconciler.agent.
type answer struct {
	ready   *corev1.Pod
	unready time.Time
}

func (r *Reconciler) newReader() *reader {
	return &reader{Reconciler: r, known: map[place]identity.NodeFacts{}, agents: map[string]answer{}}
}

// facts returns the facts about the PV and its home, as the API server has them.
func (r *reader) facts(ctx context.Context, volume *corev1.PersistentVolume,
	h identity.Home) (f identity.NodeFacts, err error) {
	at := place{h.Node, h.Hostname, h.Pool}
	f, ok := r.known[at]
	if !ok {
		if f, err = r.read(ctx, at); err != nil {
			return f, err
		}
		r.known[at] = f
	}
	f.PV, f.Home = volume.Name, h
	f.OnClaim, err = r.onClaim(ctx, volume)
	if err != nil {
		return f, err
	}
	f.Waited = f.Waited && r.since[h.Node].losses[lossOf(h)].over
	return f, nil
}

// read reads the facts about a place from the API server. The node that has the pool comes from the
// cache: it only delays.
func (r *reader) read(ctx context.Context, at place) (f identity.NodeFacts, err error) {
	if f.ThisCluster, err = r.thisCluster(ctx); err != nil {
		return f, err
	}
	node, err := live.Node(ctx, r.Live, at.node)
	if err != nil {
		return f, err
	}
	if node != nil {
		f.Exists, f.UID, f.GiveUp = true, string(node.UID), node.Annotations[contract.AnnGiveUp]
	}
	began := r.since[at.node]
	f.Waited = began.over && string(began.uid) == f.UID
	if f.Exists {
		agent, _, err := agentstatus.OnNode(ctx, r.Live, r.Namespace, at.node)
		if err != nil {
			return f, err
		}
		f.Agent = agent != nil
		f.Open, err = r.opens(ctx, agent, at)
		return f, err
	}
	agent, _, err := r.agent(ctx, at.node)
	if err != nil {
		return f, err
	}
	f.Agent = agent != nil
	if f.HostnameAt, err = live.NodeWithHostname(ctx, r.Live, at.hostname); err != nil {
		return f, err
	}
	f.PoolAt, err = r.withPool(ctx, at)
	return f, err
}

// thisCluster returns the UID of the cluster, "" if it may not be read.
func (r *Reconciler) thisCluster(ctx context.Context) (string, error) {
	var err error
	if r.cluster == "" {
		r.cluster, err = live.Cluster(ctx, r.Live)
	}
	return r.cluster, err
}

// onClaim reports whether the pool of the PV is on a claim on its node, by the operator's record.
func (r *reader) onClaim(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	if pv.Spec.CSI == nil || r.OnClaims == nil {
		return false, nil
	}
	if r.onClaims == nil {
		all, err := r.OnClaims(ctx)
		if err != nil {
			return false, err
		}
		r.onClaims = all
	}
	return r.onClaims(contract.PoolName(pv.Spec.CSI.VolumeAttributes), contract.TopologyOf(pv)), nil
}

// opens reports whether the agent, which is ready, has the pool open. It reads what the agent
// published from the API server, where the cache has it.
func (r *Reconciler) opens(ctx context.Context, agent *corev1.Pod, at place) (bool, error) {
	if agent == nil || !contract.PublishesPools(agent) {
		return agent != nil, nil
	}
	var all storagev1.CSIStorageCapacityList
	if err := r.Cache.List(ctx, &all, client.InNamespace(r.Namespace),
		client.MatchingFields{byNode: at.node}); err != nil {
		return false, err
	}
	for _, o := range all.Items {
		if o.StorageClassName != contract.PoolsClass {
			continue
		}
		now, err := live.Capacity(ctx, r.Live, o.Namespace, o.Name)
		if err != nil {
			return false, err
		}
		if now == nil {
			continue
		}
		if pools, node, ok := contract.PoolsOf(now); ok && node == at.node && pools.Pod == agent.Name &&
			pools.Opens(at.pool) {
			return true, nil
		}
	}
	return false, nil
}

// publishing returns the name of another Node that exists and whose agent published that it has the
// pool open, according to the cache; "" if there is none.
func (r *Reconciler) publishing(ctx context.Context, at place) (string, error) {
	var all storagev1.CSIStorageCapacityList
	if err := r.Cache.List(ctx, &all, client.InNamespace(r.Namespace),
		client.MatchingFields{byPool: at.pool}); err != nil {
		return "", err
	}
	for i := range all.Items {
		_, name, ok := contract.PoolsOf(&all.Items[i])
		if !ok || name == at.node {
			continue
		}
		if node, err := r.cachedNode(ctx, name); node != nil || err != nil {
			return name, err
		}
	}
	return "", nil
}

// withPool returns the name of another Node whose agent published the pool as open, or bound a PV of
// it, according to the cache; "" if there is none.
func (r *Reconciler) withPool(ctx context.Context, at place) (string, error) {
	if at.pool == "" {
		return "", nil
	}
	if node, err := r.publishing(ctx, at); node != "" || err != nil {
		return node, err
	}
	var pvs corev1.PersistentVolumeList
	if err := r.Cache.List(ctx, &pvs, client.MatchingFields{byPool: at.pool}); err != nil {
		return "", err
	}
	for i := range pvs.Items {
		h, ok := identity.HomeOf(&pvs.Items[i])
		if !ok || h.Node == at.node || h.NodeUID == "" {
			continue
		}
		if node, err := r.cachedNode(ctx, h.Node); err != nil || node != nil && string(node.UID) == h.NodeUID {
			return h.Node, err
		}
	}
	return "", nil
}

// agent is that of the Reconciler, asked once for each node.
func (r *reader) agent(ctx context.Context, node string) (ready *corev1.Pod, unready time.Time, err error) {
	known, ok := r.agents[node]
	if !ok {
		if known.ready, known.unready, err = r.Reconciler.agent(ctx, node); err != nil {
			return nil, unready, err
		}
		r.agents[node] = known
	}
	return known.ready, known.unready, nil
}

// agent reads from the API server the agent of an absent Node that is ready, nil if there is none, and
// since when at the earliest there has been none. An agent of another namespace counts: its form serves
// hostPath volumes beside the operator's.
func (r *Reconciler) agent(ctx context.Context, node string) (ready *corev1.Pod, unready time.Time, err error) {
	own, since, err := agentstatus.OnNode(ctx, r.Live, r.Namespace, node)
	if own != nil || err != nil {
		return own, since, err
	}
	other, unready, err := agentstatus.Anywhere(ctx, r.Live, node)
	if since.After(unready) {
		unready = since
	}
	return other, unready, err
}
