package waiting

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// Topics of the events that agents do not record.
const (
	topicNoAgent       = "no agent"
	topicAgentNotReady = "agent not ready"
	topicNotReady      = "node not ready"
	topicNotServed     = "not served"
	topicNoSource      = "no node of the source"
)

// absence is why the agent of a node serves no claim. It is the zero value if the agent is ready.
type absence struct{ topic, why string }

// act records why the claim waits, or gives it back to the scheduler. agent is why the node's agent
// serves nothing. It is the zero value if that is not so, or not for long: an agent that is ready
// records itself why it refuses a claim.
func (r *Reconciler) act(ctx context.Context, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass,
	p place, agent absence) error {
	if p.copies {
		return r.checkCopy(ctx, claim, p, agent)
	}
	if p.scheduled {
		return r.checkPod(ctx, claim, sc)
	}
	if p.node == "" {
		topic, message := nodechoice.NoNode(sc)
		r.warn(ctx, claim, topic, message)
		return nil
	}
	node, err := r.nodeOf(ctx, p)
	switch {
	case err != nil:
		return err
	case node == nil && p.chosen:
		_, err := r.giveBack(ctx, claim, p, nil)
		return err
	case node == nil:
		topic, message := nodechoice.NodeMissing(p.node)
		r.warn(ctx, claim, topic, message)
		return nil
	case p.chosen && !node.CreationTimestamp.Before(&claim.CreationTimestamp):
		if done, err := r.giveBack(ctx, claim, p, node); done || err != nil {
			return err
		}
	}
	if agent == (absence{}) {
		return nil
	}
	if !contract.NodeReady(node) {
		agent = notReady(p.node)
	}
	r.warn(ctx, claim, agent.topic, agent.why)
	return nil
}

// notReady is the absence of an agent whose node is not ready.
func notReady(node string) absence {
	return absence{topicNotReady, fmt.Sprintf("node %s is not ready, so this claim waits for it: kubectl describe node %[1]s",
		node)}
}

// nodeOf returns the Node of a place, nil if there is none.
func (r *Reconciler) nodeOf(ctx context.Context, p place) (*corev1.Node, error) {
	if !live.IsPossible(p.node) {
		return nil, nil
	}
	return live.Node(ctx, r.Live, p.node)
}

func (r *Reconciler) warn(ctx context.Context, claim *corev1.PersistentVolumeClaim, topic, message string) {
	r.Events.Warn(ctx, events.Claim(claim), topic, events.ProvisioningFailed, message)
}

// absent returns why no agent of a place is ready that serves claims of the provisioner. A place
// without a node has no agent.
func (r *Reconciler) absent(ctx context.Context, p place, provisioner string) (absence, error) {
	if p.node == "" {
		return absence{}, nil
	}
	var pods corev1.PodList
	if err := r.Cache.List(ctx, &pods, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return absence{}, fmt.Errorf("list the agents' pods: %w", err)
	}
	name, others := "", false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != p.node || !contract.OfDaemonSet(pod) {
			continue
		}
		switch {
		case !serves(pod, provisioner):
			others = true
		case contract.PodReady(pod):
			return absence{}, nil
		default:
			name = pod.Name
		}
	}
	if others && name == "" {
		return absence{topicNotServed, fmt.Sprintf("the agent on node %s serves no claims of provisioner %s, so this "+
			"claim waits: its HostPathProvisioner has storagePools; create the claim again with a class of provisioner %s",
			p.node, provisioner, contract.CSIProvisioner)}, nil
	}
	if name != "" {
		return absence{topicAgentNotReady, fmt.Sprintf("the agent on node %s is not ready, so this claim waits: "+
			"kubectl -n %s describe pod %s", p.node, r.Namespace, name)}, nil
	}
	return absence{topicNoAgent, fmt.Sprintf("no agent runs on node %s, so this claim waits: let one run there "+
		"(spec.workload of the HostPathProvisioner, taints of the node), or create the claim again for another node; "+
		"kubectl -n %s get pods -o wide lists the agents", p.node, r.Namespace)}, nil
}

// serves reports whether an agent serves claims of the provisioner: those with pools serve CSI claims
// alone. A pod that does not say so may.
func serves(pod *corev1.Pod, provisioner string) bool {
	for _, c := range pod.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == settings.Provision && e.Value != "" && provisioner == contract.HostPathProvisioner {
				return strings.Contains(e.Value, "hostpath")
			}
		}
	}
	return true
}

// place is the node whose agent has to serve a claim.
type place struct {
	claim types.UID
	node  string // "" if there is none
	// chosen is true if the scheduler chose the node, false if the claim's user did.
	chosen bool
	// scheduled is true if there is no node, and the scheduler is to choose one.
	scheduled bool
	// copies is true if the claim's volume is a copy, which the node of its source makes.
	copies bool
}

// placeOf returns the place of a claim of the class; for a copy without the node, which sourceNode has. ok is
// false if the claim waits for no agent: it is bound, deleted, or of another provisioner or populator.
func placeOf(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (p place, ok bool) {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || contract.Populated(claim) {
		return place{}, false
	}
	if sc.Provisioner != contract.HostPathProvisioner && sc.Provisioner != contract.CSIProvisioner {
		return place{}, false
	}
	if contract.Copies(claim, sc) {
		return place{claim: claim.UID, copies: true}, true
	}
	node, by := contract.NodeOf(claim, sc)
	p = place{claim: claim.UID, node: contract.Bounded(node), chosen: by != contract.AnnProvisionOnNode}
	p.scheduled = p.node == "" && contract.Delayed(sc)
	return p, true
}
