package claims

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// mostKnown is the number of entries in unservedRecorder.known.
	mostKnown = 1024
	// existsFor is the time for which a node or PV that exists is not read again. It
	// bounds the reads if many claims wait for one of them.
	existsFor = 5 * time.Minute
)

type answer struct {
	asked bool          // the API server was used
	next  time.Duration // the pause before the next check
}

// check records why the claim waits, unless there is an event about it already.
func (r *unservedRecorder) check(ctx context.Context, p *pendingClaim) answer {
	switch p.where {
	case remoteByScheduler:
		return r.checkChosen(ctx, p)
	case unchosen:
		r.noteIgnored(ctx, p)
		return r.checkSpace(ctx, p)
	case remoteBySource:
		return r.checkSource(ctx, p)
	case remoteByAnnotation, remoteByPV:
		if missing, asked := r.isMissing(ctx, p); !missing {
			return answer{asked, existsFor}
		}
	}
	topic, message := r.describe(p)
	if message != "" && !r.events.Exists(ctx, p.ref, topic) {
		r.warn(ctx, p, topic, message)
	}
	return answer{true, events.RepeatAfter}
}

// noteIgnored records that the annotation of a claim which waits for its pod has no effect. It does
// nothing if the claim has none, or if there is an event about it.
func (r *unservedRecorder) noteIgnored(ctx context.Context, p *pendingClaim) {
	if p.named == "" || ctx.Err() != nil {
		return
	}
	if topic, message := AnnotationIgnored(p.class); !r.events.Exists(ctx, p.ref, topic) {
		r.events.Note(ctx, p.ref, topic, events.AnnotationIgnored, message)
	}
}

// describe returns the topic and the message of a claim that needs no further check. The
// message is "" if the class was replaced since.
func (r *unservedRecorder) describe(p *pendingClaim) (topic, message string) {
	switch p.where {
	case remoteByAnnotation:
		return nodechoice.NodeMissing(p.named)
	case remoteByPV:
		return pvMissing(p.named)
	case unscheduled:
		return nodechoice.Unscheduled(p.class)
	case unassigned:
		return nodechoice.Unassigned()
	case unserved:
		if sc := r.class(p.class); sc != nil {
			return TopicUnserved, r.refusal(sc)
		}
	}
	return "", ""
}

// warn records the event. It does nothing once the context has ended.
func (r *unservedRecorder) warn(ctx context.Context, p *pendingClaim, topic, message string) {
	if ctx.Err() == nil {
		r.events.Warn(ctx, p.ref, topic, events.ProvisioningFailed, message)
	}
}

// isMissing reports whether the node or the PV that the claim names does not exist. If the
// API server does not answer, it returns false.
func (r *unservedRecorder) isMissing(ctx context.Context, p *pendingClaim) (missing, asked bool) {
	if p.where == remoteByPV {
		return r.isMissingObject("pv "+p.named, p.named, func() (bool, error) {
			pv, err := live.PV(ctx, r.client, p.named)
			return pv != nil, err
		})
	}
	return r.isMissingNode(ctx, p.named)
}

func (r *unservedRecorder) isMissingNode(ctx context.Context, name string) (missing, asked bool) {
	return r.isMissingObject("node "+name, name, func() (bool, error) {
		node, err := live.Node(ctx, r.client, name)
		return node != nil, err
	})
}

func (r *unservedRecorder) isMissingObject(key, name string,
	read func() (exists bool, err error)) (missing, asked bool) {
	if !live.IsPossible(name) {
		return true, false
	}
	if _, known := r.known.Get(key); known {
		return false, false
	}
	exists, err := read()
	if exists {
		r.known.Add(key, true, existsFor)
	}
	return !exists && err == nil, true
}

// checkChosen gives a claim back to the scheduler if the chosen node does not exist. If the agent
// may not, as with the policies of manifests/policy, it records an event with the command.
func (r *unservedRecorder) checkChosen(ctx context.Context, p *pendingClaim) answer {
	if missing, asked := r.isMissingNode(ctx, p.named); !missing {
		return answer{asked, existsFor}
	}
	topic, message := chosenMissing(p.named, p.ref.Namespace, p.ref.Name)
	if r.events.Exists(ctx, p.ref, topic) {
		return answer{true, events.RepeatAfter}
	}
	claim, err := live.Claim(ctx, r.client, record.Owner{Namespace: p.ref.Namespace, Name: p.ref.Name,
		UID: string(p.ref.UID)})
	switch {
	case err != nil:
		return answer{true, recheckDelay}
	case claim == nil, claim.DeletionTimestamp != nil, claim.Spec.VolumeName != "",
		contract.Bounded(claim.Annotations[contract.AnnSelectedNode]) != p.named:
		return answer{true, recheckDelay} // the watch reports the change before that
	}
	err = nodechoice.GiveBack(ctx, r.client, r.events, claim, "does not exist")
	switch {
	case live.Permanent(err):
		r.warn(ctx, p, topic, message)
		return answer{true, events.RepeatAfter}
	case err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err): // not that another agent was first
		klog.FromContext(ctx).Error(err, "Cannot give the claim back to the scheduler; the agent tries again",
			"claim", klog.KRef(p.ref.Namespace, p.ref.Name))
	}
	return answer{true, recheckDelay}
}

// Agents of all versions hash the topic into the name of the event, so that one agent
// records it. Do not change these values.
const (
	// TopicUnserved is that of claims whose pool this node does not offer, or that no node can serve.
	TopicUnserved = "unserved"

	topicChosenMissing = "chosen node missing"
	topicPVMissing     = "pv missing"
	topicIgnored       = "ignored"
	topicSource        = "no source"
)

// chosenMissing returns the topic and the message of the event about a claim for which the
// scheduler chose a node that does not exist, and that the agent may not change.
func chosenMissing(node, namespace, name string) (topic, message string) {
	return topicChosenMissing, fmt.Sprintf(
		"the annotation %s names node %q, which does not exist, so no pod of this claim can be scheduled: "+
			"remove it, and the scheduler chooses again: kubectl -n %s annotate pvc %s %[1]s-", contract.AnnSelectedNode, node,
		namespace, name)
}

// AnnotationIgnored returns the topic and the message of the event about a claim of a class of the
// CSI driver that names a node.
func AnnotationIgnored(className string) (topic, message string) {
	return topicIgnored, fmt.Sprintf("the annotation %s is ignored: the scheduler chooses the node of a volume of "+
		"class %q, once a pod uses the claim; to choose it yourself, set spec.nodeSelector in the pod, or use a class "+
		"of provisioner %s",
		contract.AnnProvisionOnNode, className, contract.HostPathProvisioner)
}

func pvMissing(pv string) (topic, message string) {
	return topicPVMissing, fmt.Sprintf(
		"spec.volumeName names PV %q, which does not exist, so this claim waits for it: restore that PV. "+
			"Its volume may still be on a node: kubectl hpp explain says where", pv)
}

// tooLarge returns the message of the event about a claim that requests more than any node
// publishes for its class.
func tooLarge(p *pendingClaim, pool string, o offers) string {
	return fmt.Sprintf("%s requested, and no node has that much available in pool %s: the most is %s, on node %s, of "+
		"%d with that pool (in bytes: requested %d, available %d): request less, free space, or use a class with a "+
		"larger pool",
		contract.Size(p.bytes), pool, contract.Size(o.largest), o.node, o.nodes, p.bytes, o.largest)
}
