// Package nodeinfo reads the node, the identity of its cluster, and the agent's permissions, before
// the agent serves claims and at intervals after that.
package nodeinfo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// Info is the node, the identity of its cluster, and the agent's permissions. Make it with New.
// Methods other than Name need a Read before them.
type Info struct {
	client kubernetes.Interface
	name   string
	node   *corev1.Node // set by Read
	// last is the node as it was read last. A read after the first takes the turn reading.
	last    atomic.Pointer[registration]
	reading sleep.Turn
	// relabelled is woken when a read found another label of the CSI driver than the one before.
	relabelled chan struct{}
	// cluster is the UID of the namespace kube-system, nil if it is unknown.
	cluster   atomic.Pointer[string]
	lacking   atomic.Pointer[[]permissions.Permission] // as last checked; nil before that
	hostnames atomic.Pointer[hostnames]                // nil until ReadFormer
}

// registration has the parts of a Node that may change while its agent runs: the Node is deleted
// and registered again, or an administrator annotates it or changes its labels.
type registration struct {
	uid      types.UID
	giveUp   string
	hostname string // the label kubernetes.io/hostname
	labels   map[string]string
	at       time.Time
}

// New returns an Info of the node of that name. Read reads it.
func New(client kubernetes.Interface, name string) *Info {
	return &Info{client: client, name: name, reading: sleep.NewTurn(), relabelled: make(chan struct{}, 1)}
}

// Read reads the node and the cluster's identity.
func (i *Info) Read(ctx context.Context) error {
	node, err := i.client.CoreV1().Nodes().Get(ctx, i.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %q (NODE_NAME): %w", i.name, err)
	}
	if node.Labels[corev1.LabelHostname] == "" {
		return fmt.Errorf("node %q has no label %s, so no PV could name it: kubectl label node %s %s=<hostname>",
			i.name, corev1.LabelHostname, i.name, corev1.LabelHostname)
	}
	if err := i.readCluster(ctx); err != nil {
		return err
	}
	node.ManagedFields, node.Status = nil, corev1.NodeStatus{}
	i.node = node
	i.last.Store(registrationOf(node))
	return nil
}

func registrationOf(node *corev1.Node) *registration {
	return &registration{node.UID, node.Annotations[contract.AnnGiveUp], node.Labels[corev1.LabelHostname],
		maps.Clone(node.Labels), time.Now()}
}

// ReadAgain reads the Node's UID, annotation, hostname and labels again, unless they were read within
// maxAge. They stay as they are while there is no Node, or while it cannot be read; the hostname
// also while the Node has none.
func (i *Info) ReadAgain(ctx context.Context, maxAge time.Duration) {
	if _, err := i.readAgain(ctx, maxAge); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot read the Node again", "err", err)
	}
}

// readAgain is ReadAgain, and reports whether there is a Node, or why it could not be read. One that was
// read within maxAge counts as there. All parts of the agent that need the Node at intervals share
// what it reads: with a read of its own in each, the nodes of a large cluster would ask for themselves
// all the time.
func (i *Info) readAgain(ctx context.Context, maxAge time.Duration) (exists bool, err error) {
	if !i.reading.Take(ctx) {
		return false, ctx.Err()
	}
	defer i.reading.Release()
	was := i.last.Load()
	if time.Since(was.at) < maxAge {
		return true, nil
	}
	node, err := live.Node(ctx, i.client, i.name)
	if node == nil || err != nil {
		return false, err
	}
	now := registrationOf(node)
	now.hostname = cmp.Or(now.hostname, was.hostname)
	i.last.Store(now)
	if was.labels[contract.TopologyNode] != now.labels[contract.TopologyNode] {
		sleep.Wake(i.relabelled)
	}
	if was.uid != now.uid {
		klog.FromContext(ctx).Info("The Node was registered again; the agent corrects its UID on the PVs",
			"uid", now.uid, "was", was.uid)
	}
	if was.hostname != now.hostname {
		klog.FromContext(ctx).Info("The hostname label of the node changed: new PVs require the present one, "+
			"and pods of older hostPath PVs start only where the former label is",
			"label", corev1.LabelHostname, "hostname", now.hostname, "was", was.hostname)
	}
	return true, nil
}

// Name returns the Node's name.
func (i *Info) Name() string { return i.name }

// Node returns the node as it was at the start, without its status.
func (i *Info) Node() *corev1.Node { return i.node }

// UID returns the Node's UID, as it was read last. It changes if the Node is registered again.
func (i *Info) UID() string { return string(i.last.Load().uid) }

// Hostname returns the node's label kubernetes.io/hostname, which the affinities of PVs match, as
// it was read last.
func (i *Info) Hostname() string { return i.last.Load().hostname }

// Labels returns the Node's labels, as they were read last, nil before the first Read. The caller must
// not change them.
func (i *Info) Labels() map[string]string {
	if last := i.last.Load(); last != nil {
		return last.labels
	}
	return nil
}

// GiveUp returns the Node's annotation contract.AnnGiveUp, as it was read last.
func (i *Info) GiveUp() string { return i.last.Load().giveUp }

// Cluster returns the cluster's identity, "" as long as it is unknown.
func (i *Info) Cluster() string {
	if known := i.cluster.Load(); known != nil {
		return *known
	}
	return ""
}

// readCluster reads the cluster's identity. It stays unknown if the agent may not read it.
func (i *Info) readCluster(ctx context.Context) error {
	cluster, err := live.Cluster(ctx, i.client)
	if cluster != "" {
		i.cluster.Store(&cluster)
	}
	return err
}
