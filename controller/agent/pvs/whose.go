package pvs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// nodesKnownFor is how long an answer about other Nodes counts. It is longer than resync, after
	// which a PV whose marks disagree is handled, and its Nodes are asked for, again.
	nodesKnownFor = 5 * time.Minute
	// nodesKnown bounds the memory that writers of PVs can fill.
	nodesKnown = 1000
)

// otherNodes remembers which Nodes exist beside this one. Only marks that disagree make it ask.
type otherNodes struct {
	own string // the Node's name

	mu    sync.Mutex
	known map[identity.Name]knownNode
}

type knownNode struct {
	identity.Existence
	at time.Time
}

// exists returns the last answer about the Node that a mark names. It asks no API server.
func (o *otherNodes) exists(n identity.Name) identity.Existence {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k, ok := o.known[n]; ok && time.Since(k.at) < nodesKnownFor {
		return k.Existence
	}
	return identity.Unknown
}

// ask asks the API server about the Node of a mark, unless an answer is younger than maxAge.
func (o *otherNodes) ask(ctx context.Context, client kubernetes.Interface, n identity.Name,
	maxAge time.Duration) identity.Existence {
	o.mu.Lock()
	k, ok := o.known[n]
	o.mu.Unlock()
	if ok && time.Since(k.at) < maxAge {
		return k.Existence
	}
	k = knownNode{o.lookUp(ctx, client, n), time.Now()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) >= nodesKnown {
		clear(o.known)
	}
	o.known[n] = k
	return k.Existence
}

// lookUp gets a Node by its name. It lists Nodes for a hostname, which agents may do only where
// their ClusterRole was extended.
func (o *otherNodes) lookUp(ctx context.Context, client kubernetes.Interface, n identity.Name) identity.Existence {
	if strings.HasPrefix(n.Value, contract.HashedLabel) {
		return identity.Unknown // the label of a long name
	}
	node, err := live.Node(ctx, client, n.Value)
	switch {
	case err != nil:
		return identity.Unknown
	case node != nil:
		return identity.Exists
	case !n.Host:
		return identity.Absent
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{corev1.LabelHostname: n.Value}.String(), Limit: 2, ResourceVersion: "",
	})
	if err != nil {
		return identity.Unknown
	}
	for i := range list.Items {
		if list.Items[i].Name != o.own {
			return identity.Exists
		}
	}
	return identity.Absent
}

// askNodes asks the API server about the Nodes that the marks of a PV name, if the marks disagree.
// It reads the hostname and the former ones of this node if the affinity requires another one than
// the present. What validate answers afterwards is as young as maxAge.
func (p *PVs) askNodes(ctx context.Context, b *backend, pv *corev1.PersistentVolume, maxAge time.Duration) {
	marks := b.Marks(pv)
	if a := marks.Affinity; a.Host && !a.Own && a.Value != "" {
		p.Node.ReadAgain(ctx, maxAge)
		p.Node.ReadFormer(ctx, maxAge)
		marks = b.Marks(pv)
	}
	marks.Volume = true
	identity.WhoseVolume(marks, func(n identity.Name) identity.Existence { return p.nodes.ask(ctx, p.Client, n, maxAge) })
}

// whose returns nil if the volume of a PV with these marks is this node's, as far as the answers
// about other Nodes go that are known.
func (o *otherNodes) whose(marks identity.PV, node Node) error {
	f := identity.WhoseVolume(marks, o.exists)
	if f.Answer == identity.Ours {
		return nil
	}
	if a := marks.Affinity; a.Host && !a.Own && a.Value != "" {
		return fmt.Errorf("%s; if %q was the hostname of this node, list it for the agents, the present one first: "+
			"kubectl -n %s patch configmap %s --type merge -p '{\"data\":{%q:\"%s,%s\"}}'",
			f.Why, a.Value, contract.HostnamesNamespace, contract.HostnamesConfigMap, node.Name(), node.Hostname(), a.Value)
	}
	return errors.New(f.Why)
}

// syncVanished handles a PV that the watch reported as deleted. The watch selects by the node
// label, so the PV may be there with the label of another node, or without one. If it is this
// node's, syncVanished writes the label again. A watch without the selector reports every PV of the
// cluster that changes as deleted; syncVanished ignores one that neither names this node nor has a
// record here. The error means that the PV must be handled again.
func (p *PVs) syncVanished(ctx context.Context, name string) error {
	if !p.Node.MayPatchPVs() {
		return nil // then the watch does not select by the label
	}
	if _, ok := p.deleted.Get(name); ok {
		p.deleted.Remove(name) // the name may be given to another PV
		return nil
	}
	pv, err := live.PV(ctx, p.Client, name)
	if pv == nil || err != nil || pv.Labels[contract.LabelNode] == contract.LabelValue(p.Node.Name()) {
		return err
	}
	b := p.backendOf(pv)
	if b == nil || p.IsForeign(pv) { // such as after the way back of a migration
		return nil
	}
	pool, directory := b.PoolOf(pv)
	if pool != nil && pool.Ready() != nil {
		return pool.Ready()
	}
	if !b.OfThisNode(pv) && !isRecorded(pool, directory, pv) {
		return nil
	}
	p.askNodes(ctx, b, pv, resync)
	if err := p.checkUnlabelled(b, pv); err != nil {
		p.refuse(ctx, pv, err)
		return nil
	}
	klog.FromContext(ctx).Info("Writing the node label again, which another client changed", "PV", name, "found",
		pv.Labels[contract.LabelNode])
	return p.patchMeta(ctx, pv, "labels", map[string]string{contract.LabelNode: contract.LabelValue(p.Node.Name())})
}

// isRecorded reports whether a pool, which may be nil, has the record of a PV's volume.
func isRecorded(pool *volume.Pool, directory string, pv *corev1.PersistentVolume) bool {
	if pool == nil {
		return false
	}
	v, err := pool.Get(directory)
	return err == nil && v.PV == pv.Name
}
