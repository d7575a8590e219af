package nodegone

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// home has the marks of a PV that name where its volume is. A mark that no agent recorded is "".
type home struct {
	node     string    // the Node's name
	hostname string    // the label that the affinity of a hostPath PV requires; "" for a CSI PV
	uid      types.UID // the Node's UID
	pool     string    // the pool's UUID
	cluster  string    // the UID of the cluster
	missing  string    // the agent's report that pool or volume are missing
}

// homeOf returns the home of a PV. ok is false if the PV is not one of the provisioners', or names no node.
func homeOf(pv *corev1.PersistentVolume) (h home, ok bool) {
	a := pv.Annotations
	h = home{uid: types.UID(a[contract.AnnNodeUID]), pool: a[contract.AnnPool], cluster: a[contract.AnnCluster], missing: a[contract.AnnMissing]}
	if pv.Spec.CSI != nil {
		h.node = contract.TopologyOf(pv)
		return h, h.node != "" && pv.Spec.CSI.Driver == contract.CSIProvisioner
	}
	h.node, h.hostname = a[contract.AnnProvisionOnNode], contract.Hostname(pv)
	return h, h.node != "" && h.hostname != "" && a[contract.AnnProvisionedBy] == contract.HostPathProvisioner
}

// isNode reports whether a Node with that UID may be the home.
func (h home) isNode(uid types.UID) bool { return h.uid == "" || h.uid == uid }

// place is what the facts about a node depend on, for all PVs with the same one.
type place struct{ node, hostname, pool string }

// reader reads the facts about each place once.
type reader struct {
	*Reconciler
	known map[place]identity.NodeFacts
}

// facts returns the facts about the PV of that name and its home, as the API server has them.
func (r *reader) facts(ctx context.Context, pv string, h home) (identity.NodeFacts, error) {
	at := place{h.node, h.hostname, h.pool}
	f, ok := r.known[at]
	if !ok {
		var err error
		if f, err = r.read(ctx, at); err != nil {
			return f, err
		}
		r.known[at] = f
	}
	f.PV, f.NodeUID, f.Cluster, f.Missing = pv, string(h.uid), h.cluster, h.missing
	return f, nil
}

// read reads the facts about a place from the API server. Only the node that has the pool comes from the cache: it only delays.
func (r *Reconciler) read(ctx context.Context, at place) (f identity.NodeFacts, err error) {
	f.Node, f.Pool = at.node, at.pool
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
	if f.Hostname, err = r.withHostname(ctx, at.hostname); err != nil {
		return f, err
	}
	f.Elsewhere, err = r.withPool(ctx, at)
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

// withHostname returns the name of a Node with that hostname label, "" if there is none. It may be a Node of the home's own name,
// if that was created after it was read.
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

// withPool returns the name of another Node whose agent bound a PV of the pool, according to the cache; "" if there is none.
func (r *Reconciler) withPool(ctx context.Context, at place) (string, error) {
	if at.pool == "" {
		return "", nil
	}
	var pvs corev1.PersistentVolumeList
	if err := r.Cache.List(ctx, &pvs, client.MatchingFields{byPool: at.pool}); err != nil {
		return "", err
	}
	for i := range pvs.Items {
		h, ok := homeOf(&pvs.Items[i])
		if !ok || h.node == at.node || h.uid == "" {
			continue
		}
		if node, err := r.cachedNode(ctx, h.node); err != nil || node != nil && node.UID == h.uid {
			return h.node, err
		}
	}
	return "", nil
}

// agent reads from the API server whether the node has an agent that is ready, and if not since when at the earliest.
func (r *Reconciler) agent(ctx context.Context, node string) (ready bool, unready time.Time, err error) {
	pods, err := r.Live.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return false, unready, live.Unanswered{Request: "list pods of node " + node, Err: err}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !contract.OfDaemonSet(pod) {
			continue
		}
		since, not := contract.UnreadySince(pod)
		if !not {
			return true, time.Time{}, nil
		}
		if since.After(unready) {
			unready = since
		}
	}
	return false, unready, nil
}
