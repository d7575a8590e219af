package claims

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/controller/timing"
)

const (
	// TopicUnserved is the topic of claims whose pool is not offered on this node.
	TopicUnserved = "unserved"

	// Agents of all versions hash the topic into the name of the event, so that one
	// agent records it. Do not change these values.
	topicUnassigned         = "nobodys"
	topicRemoteByAnnotation = "elsewhere"
	topicUnscheduled        = "unscheduled"
)

var (
	// spread is the time over which the agents of a cluster distribute their checks.
	// The first agent records the event; the others find it.
	spread = timing.Scaled(8 * time.Second)
	// headStart is the time by which the operator, if there is one, is earlier.
	headStart = timing.Scaled(5 * time.Second)
	// remoteDelay is the time that another node has to serve the claim.
	remoteDelay = timing.Scaled(15 * time.Second)
)

// unservedRecorder records an event about each claim that no agent will serve:
//
//   - a claim that names our provisioner and no node,
//   - a claim that names a node that does not exist,
//   - a claim whose class keeps the scheduler from choosing a node,
//   - a claim whose pool is not offered.
//
// Every agent watches these claims. Each waits for a delay hashed from its node name
// and the UID of the claim, and records the event unless it exists. So does the operator,
// which is earlier.
type unservedRecorder struct {
	client kubernetes.Interface
	events *events.Recorder
	node   string
	ctx    context.Context // of Watch; once it ends, timers record nothing
	// refusal returns why this node does not serve claims of the class, or "" if it
	// does.
	refusal func(className string) string

	mu      sync.Mutex
	pending map[types.UID]*pendingClaim
}

type pendingClaim struct {
	where  placement
	wanted string // the node that the annotation names
	timer  *time.Timer
}

func newUnservedRecorder(ctx context.Context, client kubernetes.Interface, e *events.Recorder, node string,
	refusal func(className string) string) *unservedRecorder {
	return &unservedRecorder{client: client, events: e, node: node, ctx: ctx, refusal: refusal,
		pending: map[types.UID]*pendingClaim{}}
}

// update starts the timer of a claim that needs an event, and stops it if the claim no
// longer needs one. It does nothing if the claim has not changed.
func (r *unservedRecorder) update(claim *corev1.PersistentVolumeClaim, where placement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := truncated(claim.Annotations[class.AnnProvisionOnNode]) // bounded, because every agent keeps it
	if p, ok := r.pending[claim.UID]; ok {
		if p.where == where && p.wanted == wanted && claim.DeletionTimestamp == nil {
			return
		}
		p.timer.Stop()
		delete(r.pending, claim.UID)
	}
	if !needsEvent(where) || claim.DeletionTimestamp != nil {
		return
	}
	p := &pendingClaim{where: where, wanted: wanted}
	ref, className := events.Claim(claim), class.Of(claim)
	p.timer = time.AfterFunc(r.delay(claim.UID, where), func() {
		r.record(ref, where, wanted, className)
		r.repeat(ref.UID, p)
	})
	r.pending[claim.UID] = p
}

// needsEvent reports whether a claim with this placement may never be served.
func needsEvent(where placement) bool {
	switch where {
	case unassigned, remoteByAnnotation, unscheduled, unserved:
		return true
	}
	return false
}

// repeat restarts the timer, because API servers delete events after a while.
func (r *unservedRecorder) repeat(uid types.UID, p *pendingClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[uid] == p {
		p.timer.Reset(events.RepeatAfter + r.delay(uid, p.where))
	}
}

func (r *unservedRecorder) delay(uid types.UID, where placement) time.Duration {
	d := headStart + time.Duration(events.Hash(r.node, string(uid))%uint64(spread))
	if where == remoteByAnnotation || where == unserved { // another node may serve it
		d += remoteDelay
	}
	return d
}

func (r *unservedRecorder) record(claim corev1.ObjectReference, where placement, wanted, className string) {
	if r.ctx.Err() != nil {
		return
	}
	topic, message := "", ""
	switch where {
	case remoteByAnnotation:
		topic, message = NodeMissing(wanted)
	case unscheduled:
		topic, message = unscheduledClaim(className)
	case unassigned:
		topic, message = unassignedClaim()
	case unserved:
		if topic, message = TopicUnserved, r.refusal(className); message == "" {
			return // the class was replaced
		}
	}
	if r.events.Exists(r.ctx, claim, topic) || where == remoteByAnnotation && !r.isMissing(wanted) {
		return
	}
	r.events.Warn(r.ctx, claim, topic, events.ProvisioningFailed, message)
}

// isMissing reports whether the API server answers that the node does not exist. It
// returns false for any other error.
func (r *unservedRecorder) isMissing(name string) bool {
	node, err := live.Node(r.ctx, r.client, name)
	return node == nil && err == nil
}
