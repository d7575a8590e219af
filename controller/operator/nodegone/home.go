package nodegone

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
)

// place is what the facts about a node depend on, for all PVs with the same one.
type place struct{ node, hostname, pool string }

// reader reads the facts about each place once.
type reader struct {
	*Reconciler
	known map[place]identity.NodeFacts
}

// facts returns the facts about the PV of that name and its home, as the API server has them.
func (r *reader) facts(ctx context.Context, pv string, h identity.Home) (identity.NodeFacts, error) {
	at := place{h.Node, h.Hostname, h.Pool}
	f, ok := r.known[at]
	if !ok {
		var err error
		if f, err = r.read(ctx, at); err != nil {
			return f, err
		}
		r.known[at] = f
	}
	f.PV, f.Home = pv, h
	f.Waited = f.Waited && r.since[h.Node].losses[lossOf(h)].over
	return f, nil
}

// read reads the facts about a place from the API server. The node that has the pool comes from the
// cache: it only delays.
func (r *Reconciler) read(ctx context.Context, at place) (f identity.NodeFacts, err error) {
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
	if f.Agent, _, err = r.agent(ctx, at.node); err != nil || f.Exists {
		return f, err
	}
	if f.HostnameAt, err = r.withHostname(ctx, at.hostname); err != nil {
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

// withHostname returns the name of a Node with that hostname label, "" if there is none. It may be
// of the home's own name, if it was created since.
func (r *Reconciler) withHostname(ctx context.Context, hostname string) (string, error) {
	if hostname == "" {
		return "", nil
	}
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{corev1.LabelHostname: hostname})
	if err != nil {
		return "", err
	}
	named, err := r.Live.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "", live.Unanswered{Request: "list nodes with hostname " + hostname, Err: err}
	}
	if len(named.Items) == 0 {
		return "", nil
	}
	return named.Items[0].Name, nil
}

// withPool returns the name of another Node whose agent bound a PV of the pool, according to the
// cache; "" if there is none.
func (r *Reconciler) withPool(ctx context.Context, at place) (string, error) {
	if at.pool == "" {
		return "", nil
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

// agent reads from the API server whether the node has an agent that is ready, and if not since
// when at the earliest.
func (r *Reconciler) agent(ctx context.Context, node string) (ready bool, unready time.Time, err error) {
	return agentstatus.OnNode(ctx, r.Live, r.Namespace, node)
}
