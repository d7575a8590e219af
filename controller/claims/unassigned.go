package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
)

const (
	// spread is over how long the agents of a cluster come to speak. The first
	// one's event keeps the others silent.
	spread = 8 * time.Second
	// patience is how long a claim for another node is given to be served.
	patience = 15 * time.Second

	// TopicUnserved is the topic of claims whose pool is not offered on this node.
	TopicUnserved = "unserved"

	// Agents of all versions hash the topic into the name of the event, so that one
	// agent records it. Do not change these values.
	topicUnassigned         = "nobodys"
	topicRemoteByAnnotation = "elsewhere"
	topicUnscheduled        = "unscheduled"
)

// voice speaks for the claims that no agent will serve: those that name our
// provisioner and no node, those that name a node which does not exist,
// those whose class keeps the scheduler from choosing one, and those whose pool
// is not offered.
// Every agent hears of them; each waits a time that follows from its name and
// the claim's UID, looks whether the event is there, and writes it only if not.
type voice struct {
	client kubernetes.Interface
	events *events.Recorder
	node   string
	ctx    context.Context // of Run: the timers' work ends with it
	// unserved returns why this node does not serve claims of the class, and
	// "" if it does.
	unserved func(className string) string

	mu      sync.Mutex
	pending map[types.UID]*pendingClaim
}

type pendingClaim struct {
	where  placement
	wanted string // the node that the annotation names
	timer  *time.Timer
}

func newVoice(ctx context.Context, client kubernetes.Interface, s *events.Recorder, node string, unserved func(string) string) *voice {
	return &voice{client: client, events: s, node: node, ctx: ctx, unserved: unserved, pending: map[types.UID]*pendingClaim{}}
}

// hear takes note of a claim, or forgets it where it needs no word any more.
func (v *voice) hear(claim *corev1.PersistentVolumeClaim, where placement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wanted := truncated(claim.Annotations[class.AnnProvisionOnNode]) // every agent keeps it
	if p, ok := v.pending[claim.UID]; ok {
		if p.where == where && p.wanted == wanted && claim.DeletionTimestamp == nil {
			return
		}
		p.timer.Stop()
		delete(v.pending, claim.UID)
	}
	if !needsWord(where) || claim.DeletionTimestamp != nil {
		return
	}
	p := &pendingClaim{where: where, wanted: wanted}
	ref, className := events.Claim(claim), class.Of(claim)
	p.timer = time.AfterFunc(v.delay(claim.UID, where), func() {
		v.speak(ref, where, wanted, className)
		v.sayAgain(ref.UID, p)
	})
	v.pending[claim.UID] = p
}

// needsWord reports whether no agent will serve a claim in this place.
func needsWord(where placement) bool {
	switch where {
	case unassigned, remoteByAnnotation, unscheduled, unserved:
		return true
	}
	return false
}

// sayAgain sets the timer once more: API servers forget events after a while.
func (v *voice) sayAgain(uid types.UID, p *pendingClaim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending[uid] == p {
		p.timer.Reset(events.RepeatAfter + v.delay(uid, p.where))
	}
}

func (v *voice) delay(uid types.UID, where placement) time.Duration {
	d := time.Duration(events.Hash(v.node, string(uid)) % uint64(spread))
	if where == remoteByAnnotation || where == unserved { // another node may serve it
		d += patience
	}
	return d
}

func (v *voice) speak(claim corev1.ObjectReference, where placement, wanted, className string) {
	if v.ctx.Err() != nil {
		return
	}
	topic, message := words(where, wanted, className)
	if where == unserved {
		if topic, message = TopicUnserved, v.unserved(className); message == "" {
			return // the class is another by now
		}
	}
	if v.events.Exists(v.ctx, claim, topic) || where == remoteByAnnotation && !v.absent(wanted) {
		return
	}
	v.events.Warn(v.ctx, claim, topic, events.ProvisioningFailed, message)
}

// words are what is said of a placement, and under which topic.
func words(where placement, wanted, className string) (topic, message string) {
	const delayed = storagev1.VolumeBindingWaitForFirstConsumer
	switch where {
	case remoteByAnnotation:
		return topicRemoteByAnnotation, fmt.Sprintf(
			"the annotation %s names node %q, which does not exist: correct it (kubectl get nodes lists them)",
			class.AnnProvisionOnNode, wanted)
	case unscheduled:
		return topicUnscheduled, fmt.Sprintf(
			"no node will be chosen for this claim: that is for the scheduler alone, and class %q has no volumeBindingMode %s; "+
				"a class cannot be edited: delete it and make it anew with that mode, or use another class", className, delayed)
	}
	return topicUnassigned, fmt.Sprintf(
		"no node is named for this claim: annotate it with %s: <node>, or use a class with volumeBindingMode %s",
		class.AnnProvisionOnNode, delayed)
}

// absent reports whether the API server says that there is no such node.
func (v *voice) absent(node string) bool {
	_, err := v.client.CoreV1().Nodes().Get(v.ctx, node, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}
