package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// facts are what a node must know before it can serve a claim.
type facts struct {
	node     *corev1.Node
	hostname string // the label that PV affinities match
	cluster  string // UID of kube-system: the cluster's identity; "" if unknown
}

// readFacts asks the API server for this node's facts.
func readFacts(ctx context.Context, client kubernetes.Interface, name string) (*facts, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %q (NODE_NAME): %w", name, err)
	}
	hostname := node.Labels[corev1.LabelHostname]
	if hostname == "" {
		return nil, fmt.Errorf("node %q has no label %s, so no PV could name it: kubectl label node %s %s=<hostname>",
			name, corev1.LabelHostname, name, corev1.LabelHostname)
	}
	cluster, err := live.Cluster(ctx, client)
	if err != nil {
		return nil, err
	}
	node.ManagedFields, node.Status = nil, corev1.NodeStatus{}
	return &facts{node: node, hostname: hostname, cluster: cluster}, nil
}

// cluster returns the cluster's identity, "" as long as it is unknown.
func (c *Controller) cluster() string {
	if late := c.lateCluster.Load(); late != nil {
		return *late
	}
	return c.facts.cluster
}

// Holder is how the agent of a node names itself to one that finds its pool
// taken.
func Holder(node, host string) string { return fmt.Sprintf("%s (host %s)", agentOf(node), host) }

func agentOf(node string) string { return events.Component + " on node " + node }

// heldHere reports whether the pool is not ready because another agent of this
// same node has it: that one serves the node's claims, or soon ends.
func heldHere(err error, node string) bool {
	var held *fault.HeldError
	return errors.As(err, &held) && strings.HasPrefix(held.By, agentOf(node)+" ")
}

// thisNode is a NodeLister that knows one node and always answers with it. The
// library would take the scheduler's choice off a claim if the lister said that
// the node is not there; ShouldProvision has let through this node's claims only.
type thisNode struct{ node *corev1.Node }

func (n thisNode) List(labels.Selector) ([]*corev1.Node, error) { return []*corev1.Node{n.node}, nil }
func (n thisNode) Get(string) (*corev1.Node, error)             { return n.node, nil }
