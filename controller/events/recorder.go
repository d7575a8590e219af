package events

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// Component is who speaks in events.
	Component = "hostpath-provisioner"
	// ReasonFailed is the reason of every refusal on a claim. It is the one the
	// library uses, so that one search finds all.
	ReasonFailed = "ProvisioningFailed"
	// Silence is how long the same thing is not said again. API servers forget
	// events after an hour; a claim that still waits then is told once more.
	Silence = time.Hour
	// maxEventName is the longest name an object can have.
	maxEventName = 253
)

// Recorder records the events of one agent. Those of Warn and Note are recorded
// once: the event's name follows from the object and the topic, so a second one,
// from this agent after a restart or from another node's, meets the first and is
// dropped. Those of the embedded recorder are counted up if they are repeated.
type Recorder struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster

	client kubernetes.Interface
	node   string

	mu   sync.Mutex
	said map[string]time.Time
}

// New returns a recorder for the agent of a node. The caller closes it.
func New(client kubernetes.Interface, node string) *Recorder {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &Recorder{
		EventRecorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component, Host: node}), broadcaster: b,
		client: client, node: node, said: map[string]time.Time{},
	}
}

// Close ends the recording of counted events. Warn and Note still record.
func (s *Recorder) Close() { s.broadcaster.Shutdown() }

// Warn says a Warning about obj unless that topic was said within the hour.
// A failure to write is logged and the topic may be said again.
func (s *Recorder) Warn(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string) {
	s.say(ctx, corev1.EventTypeWarning, obj, topic, reason, message)
}

// Note says what is no fault, as Warn does.
func (s *Recorder) Note(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string) {
	s.say(ctx, corev1.EventTypeNormal, obj, topic, reason, message)
}

func (s *Recorder) say(ctx context.Context, kind string, obj corev1.ObjectReference, topic, reason, message string) {
	name := eventName(obj, topic)
	if !s.begin(name) {
		return
	}
	log := klog.FromContext(ctx)
	_, err := s.client.CoreV1().Events(namespaceOf(obj)).Create(ctx, s.event(kind, obj, name, reason, message), metav1.CreateOptions{})
	switch {
	case err == nil:
		log.Info("Event", "type", kind, "object", obj.Kind, "namespace", obj.Namespace, "name", obj.Name, "reason", reason, "message", message)
	case !apierrors.IsAlreadyExists(err):
		s.forget(name)
		log.Error(err, "Cannot write event", "event", name, "message", message)
	}
}

// Exists asks the API server whether anybody said the topic already.
func (s *Recorder) Exists(ctx context.Context, obj corev1.ObjectReference, topic string) bool {
	_, err := s.client.CoreV1().Events(namespaceOf(obj)).Get(ctx, eventName(obj, topic), metav1.GetOptions{})
	return err == nil
}

// begin reports whether name may be said now, and notes that it is.
func (s *Recorder) begin(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if t, ok := s.said[name]; ok && now.Sub(t) < Silence {
		return false
	}
	for n, t := range s.said {
		if now.Sub(t) >= Silence {
			delete(s.said, n)
		}
	}
	s.said[name] = now
	return true
}

func (s *Recorder) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.said, name)
}

func (s *Recorder) event(kind string, obj corev1.ObjectReference, name, reason, message string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Namespace: namespaceOf(obj)},
		InvolvedObject:      obj,
		Type:                kind,
		Reason:              reason,
		Message:             message,
		Source:              corev1.EventSource{Component: Component, Host: s.node},
		ReportingController: Component,
		ReportingInstance:   s.node,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
}

// eventName is the same on every node for the same object and topic.
func eventName(obj corev1.ObjectReference, topic string) string {
	suffix := fmt.Sprintf(".%016x", Hash(string(obj.UID), topic))
	name := obj.Name
	if room := maxEventName - len(suffix); len(name) > room {
		name = name[:room]
	}
	return name + suffix
}

// Hash is the same on every node for the same parts.
func Hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// namespaceOf is where events about obj live; cluster-scoped objects have
// theirs in the default namespace.
func namespaceOf(obj corev1.ObjectReference) string {
	if obj.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return obj.Namespace
}
