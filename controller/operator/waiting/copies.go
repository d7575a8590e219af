package waiting

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// sourceNode returns the node that has the volume of which a claim gets a copy, whatever node the scheduler
// chose for the claim. It returns "" if no PV says so: agents then record the reason, such as a source that
// does not exist or is not bound.
func (r *Reconciler) sourceNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	from, _ := contract.CopiedClaim(claim)
	var source corev1.PersistentVolumeClaim
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: from.Namespace, Name: from.Name}, &source)
	if err != nil || source.Spec.VolumeName == "" {
		return "", client.IgnoreNotFound(err)
	}
	var pv corev1.PersistentVolume
	if err := r.Cache.Get(ctx, types.NamespacedName{Name: source.Spec.VolumeName}, &pv); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != source.UID {
		return "", nil
	}
	home, _ := identity.HomeOf(&pv)
	return contract.Bounded(home.Node), nil
}

// checkCopy records why no agent makes the copy that a claim waits for. agent is why that of the source's
// node serves nothing. It does nothing while an agent is ready there: that one records the reason.
func (r *Reconciler) checkCopy(ctx context.Context, claim *corev1.PersistentVolumeClaim, p place, agent absence) error {
	from, _ := contract.CopiedClaim(claim)
	node, err := r.nodeOf(ctx, p)
	switch {
	case err != nil:
		return err
	case node == nil:
		agent = absence{topicNoSource, fmt.Sprintf("node %s, which has the volume of claim %s, does not exist any more, so "+
			"there is no copy of it for this claim; see docs/node-gone.md", p.node, from.Name)}
	case agent == (absence{}):
		return nil
	case !contract.NodeReady(node):
		agent = notReady(p.node)
	case agent.topic == topicNoAgent:
		agent.why = fmt.Sprintf("no agent runs on node %s, which has the volume of claim %s, so this claim waits for its copy: "+
			"let one run there (spec.workload of the HostPathProvisioner, taints of the node); kubectl -n %s get pods -o wide "+
			"lists the agents", p.node, from.Name, r.Namespace)
	}
	r.warn(ctx, claim, agent.topic, agent.why)
	return nil
}
