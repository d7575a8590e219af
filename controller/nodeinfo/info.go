// Package nodeinfo is what the agent reads about its node before it serves claims: the
// node itself, the identity of its cluster, and the agent's own permissions.
package nodeinfo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// Info is the node as the API server has it, the identity of its cluster, and
// the agent's permissions. Make it with New. Its methods but Name may be
// called after Read only.
type Info struct {
	client kubernetes.Interface
	name   string
	node   *corev1.Node // set by Read
	// last is the node as it was read last.
	last atomic.Pointer[registration]
	// cluster is the UID of the namespace kube-system, nil if it is unknown.
	cluster   atomic.Pointer[string]
	lacking   atomic.Pointer[[]permission] // as last asked; nil before that
	hostname  atomic.Pointer[hostname]     // as it was read last
	hostnames atomic.Pointer[hostnames]    // nil until ReadFormer
}

// registration is what changes of a node while its agent runs: its Node is deleted and
// registered again, and an administrator annotates it.
type registration struct {
	uid    types.UID
	giveUp string
}

// New returns the info of the node of that name, which is not read yet.
func New(client kubernetes.Interface, name string) *Info {
	return &Info{client: client, name: name}
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
	i.hostname.Store(&hostname{node.Labels[corev1.LabelHostname], time.Now()})
	return nil
}

func registrationOf(node *corev1.Node) *registration {
	return &registration{node.UID, node.Annotations[class.AnnGiveUp]}
}

// readAgain reads the Node's UID and its annotation again. Both stay as they are while
// there is no Node, or while it cannot be read.
func (i *Info) readAgain(ctx context.Context) {
	node, err := i.client.CoreV1().Nodes().Get(ctx, i.name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot read the Node again", "err", err)
		return
	}
	now := registrationOf(node)
	if was := i.last.Swap(now); was.uid != now.uid {
		klog.FromContext(ctx).Info("The Node was registered again; the agent corrects its UID on the PVs", "uid", now.uid, "was", was.uid)
	}
}

// Name returns the Node's name.
func (i *Info) Name() string { return i.name }

// Node returns the node as it was at the start, without its status.
func (i *Info) Node() *corev1.Node { return i.node }

// UID returns the Node's UID, as it was read last. Another Node of the same name has
// another one.
func (i *Info) UID() string { return string(i.last.Load().uid) }

// GiveUp returns the Node's annotation class.AnnGiveUp, as it was read last.
func (i *Info) GiveUp() string { return i.last.Load().giveUp }

// Cluster returns the cluster's identity, "" as long as it is unknown.
func (i *Info) Cluster() string {
	if known := i.cluster.Load(); known != nil {
		return *known
	}
	return ""
}

// readCluster reads the cluster's identity. It stays unknown if the agent may not
// read it.
func (i *Info) readCluster(ctx context.Context) error {
	cluster, err := live.Cluster(ctx, i.client)
	if cluster != "" {
		i.cluster.Store(&cluster)
	}
	return err
}
