// Package onlynode checks that a cluster has one node. Claims of a provisioner for such
// clusters name no node, so the agents of two nodes would both serve them.
package onlynode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Events records Warnings, once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// Guard checks that its node is the only one that pods can run on. Make it with New.
// Call Read before any other method.
type Guard struct {
	client  kubernetes.Interface
	node    string // the Node's name
	events  Events
	changed func()
	found   atomic.Pointer[error] // by the last check
}

// New returns a Guard for the node. changed is called when Err becomes nil; it must not block.
func New(client kubernetes.Interface, node string, events Events, changed func()) *Guard {
	return &Guard{client: client, node: node, events: events, changed: changed}
}

// Err returns nil if the node is the only one that pods can run on. Otherwise the error
// names the nodes and what to use instead.
func (g *Guard) Err() error {
	if found := g.found.Load(); found != nil {
		return *found
	}
	return fmt.Errorf("the nodes of the cluster are not read yet")
}

// Read lists the nodes and checks them.
func (g *Guard) Read(ctx context.Context) error {
	nodes, err := g.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes of the cluster, which --compat=hostpath needs: %w", err)
	}
	var all []*corev1.Node
	for i := range nodes.Items {
		all = append(all, &nodes.Items[i])
	}
	g.check(ctx, all)
	return nil
}

// Run watches the nodes until the context ends. It records an event on its node when others appear.
func (g *Guard) Run(ctx context.Context) {
	informer := coreinformers.NewNodeInformer(g.client, 0, cache.Indexers{})
	_ = informer.SetTransform(slim) // it has not run
	err := informers.Run(ctx, func() {
		var all []*corev1.Node
		for _, obj := range informer.GetStore().List() {
			all = append(all, obj.(*corev1.Node))
		}
		g.check(ctx, all)
	}, informer)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch nodes; a second node is noticed at the next start")
	}
}

// slim removes from a node what only does not need. The status lists every image of the node.
func slim(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok {
		n.ManagedFields, n.Annotations, n.Status = nil, nil, corev1.NodeStatus{}
	}
	return obj, nil
}

func (g *Guard) check(ctx context.Context, nodes []*corev1.Node) {
	now := only(g.node, nodes)
	before := g.found.Swap(&now)
	switch {
	case now != nil:
		g.events.Warn(ctx, *events.Node(g.node), "nodes", events.SeveralNodes,
			now.Error()+"; new claims wait. Existing volumes are not affected")
	case before != nil && *before != nil:
		klog.FromContext(ctx).Info("This node is the only one that pods can run on; new claims are served")
		g.changed()
	}
}

// only returns nil if pods can run on this node alone. Taints do not count, because pods
// can tolerate them. A cordoned node serves claims only if the cluster has no other: the
// agents of two cordoned nodes would both serve them.
func only(node string, nodes []*corev1.Node) error {
	var open, all []string
	for _, n := range nodes {
		all = append(all, n.Name)
		if !n.Spec.Unschedulable {
			open = append(open, n.Name)
		}
	}
	switch {
	case slices.Equal(open, []string{node}), slices.Equal(all, []string{node}):
		return nil
	case len(open) <= 1:
		open = all
	}
	slices.Sort(open)
	return fmt.Errorf("provisioner %s is for clusters of one node, and node %s is not the only one here (%s): "+
		"remove or cordon the other nodes, or use a class of provisioner %s (manifests/legacy), whose claims have a node",
		contract.SingleNodeProvisioner, node, strings.Join(open, ", "), contract.HostPathProvisioner)
}
