package events

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// Component is the source of all events.
	Component = "hostpath-provisioner"
	// RepeatAfter is the time after which an event of the same object and topic is recorded again. The
	// API server deletes events after an hour, and a claim that waits then gets a new one.
	RepeatAfter = time.Hour
	// maxEventName is the limit of Kubernetes on the name of an object.
	maxEventName = 253
)

// Recorder records the events of one agent. Warn and Note record an event once: its name is
// computed from the object and the topic, so the API server refuses a second one, of this agent
// after a restart or of another's. The embedded recorder aggregates events instead.
type Recorder struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster

	client kubernetes.Interface
	source corev1.EventSource

	mu       sync.Mutex
	recorded map[string]time.Time // by event name; guarded by mu
}

// New returns a recorder for the agent of a node. The caller closes it.
func New(client kubernetes.Interface, node string) *Recorder {
	return NewOf(client, corev1.EventSource{Component: Component, Host: node})
}

// NewOf returns a recorder for another source of events. The caller closes it.
func NewOf(client kubernetes.Interface, source corev1.EventSource) *Recorder {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &Recorder{
		EventRecorder: b.NewRecorder(scheme.Scheme, source), broadcaster: b,
		client: client, source: source, recorded: map[string]time.Time{},
	}
}

// Close stops the embedded recorder. Warn and Note still record.
func (r *Recorder) Close() { r.broadcaster.Shutdown() }

// Warn records an event of type Warning about obj. It does nothing if this agent recorded the topic
// within RepeatAfter, or the API server has the event. It logs an error; the next call retries.
func (r *Recorder) Warn(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string) {
	r.once(ctx, corev1.EventTypeWarning, obj, topic, reason, message)
}

// Note records an event of type Normal, as Warn does.
func (r *Recorder) Note(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string) {
	r.once(ctx, corev1.EventTypeNormal, obj, topic, reason, message)
}

func (r *Recorder) once(ctx context.Context, kind string, obj corev1.ObjectReference, topic, reason, message string) {
	name := eventName(obj, topic)
	if !r.reserve(name) {
		return
	}
	log := klog.FromContext(ctx)
	_, err := r.client.CoreV1().Events(namespaceOf(obj)).Create(ctx, r.event(kind, obj, name, reason, message),
		metav1.CreateOptions{})
	switch {
	case err == nil:
		log.Info("Event", "type", kind, "object", obj.Kind, "namespace", obj.Namespace, "name", obj.Name, "reason", reason,
			"message", message)
	case !apierrors.IsAlreadyExists(err):
		r.release(name)
		log.Error(err, "Cannot record an event", "event", name, "message", message)
	}
}

// Worded returns the topic of one message among those that a topic has, for events whose cause may
// change while the former one is still true: each text is recorded then. Messages that differ only in
// their digits have the same topic.
func Worded(topic, message string) string {
	return topic + " " + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, message)
}

// Exists reports whether the API server has an event of that object and topic, of
// any agent. A failed read counts as no.
func (r *Recorder) Exists(ctx context.Context, obj corev1.ObjectReference, topic string) bool {
	_, err := r.client.CoreV1().Events(namespaceOf(obj)).Get(ctx, eventName(obj, topic), metav1.GetOptions{})
	return err == nil
}

// reserve reports whether the event of that name may be recorded now. If so, it may
// not for RepeatAfter, unless release is called.
func (r *Recorder) reserve(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if t, ok := r.recorded[name]; ok && now.Sub(t) < RepeatAfter {
		return false
	}
	for n, t := range r.recorded {
		if now.Sub(t) >= RepeatAfter {
			delete(r.recorded, n)
		}
	}
	r.recorded[name] = now
	return true
}

func (r *Recorder) release(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.recorded, name)
}

func (r *Recorder) event(kind string, obj corev1.ObjectReference, name, reason, message string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Namespace: namespaceOf(obj)},
		InvolvedObject:      obj,
		Type:                kind,
		Reason:              reason,
		Message:             message,
		Source:              r.source,
		ReportingController: r.source.Component,
		ReportingInstance:   r.source.Host,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
}

// eventName returns a name that all agents compute for the same object and topic.
func eventName(obj corev1.ObjectReference, topic string) string {
	suffix := fmt.Sprintf(".%016x", Hash(string(obj.UID), topic))
	name := obj.Name
	if room := maxEventName - len(suffix); len(name) > room {
		// A part of a name between dots must end with a letter or a digit.
		name = strings.TrimRight(name[:room], ".-")
	}
	return name + suffix
}

// Hash returns a hash that all agents compute for the same parts.
func Hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// namespaceOf returns the namespace of events about obj: its own, or default for one without.
func namespaceOf(obj corev1.ObjectReference) string {
	return cmp.Or(obj.Namespace, metav1.NamespaceDefault)
}

// Discard drops events. The agent uses it in driver-only mode, where it has no client
// of the API server; callers also log what they record.
type Discard struct{}

// Event implements record.EventRecorder.
func (Discard) Event(runtime.Object, string, string, string) {}

// Eventf implements record.EventRecorder.
func (Discard) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf implements record.EventRecorder.
func (Discard) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}

// Claim returns the reference of an event to a claim.
func Claim(c *corev1.PersistentVolumeClaim) corev1.ObjectReference {
	return reference("PersistentVolumeClaim", c.Namespace, c.Name, c.UID, c.ResourceVersion)
}

// PV returns the reference of an event to a PV.
func PV(pv *corev1.PersistentVolume) corev1.ObjectReference {
	return reference("PersistentVolume", "", pv.Name, pv.UID, pv.ResourceVersion)
}

// Class returns the reference of an event to a class.
func Class(c *storagev1.StorageClass) corev1.ObjectReference {
	r := reference("StorageClass", "", c.Name, c.UID, c.ResourceVersion)
	r.APIVersion = "storage.k8s.io/v1"
	return r
}

// Node returns the reference of an event to a node. As in the kubelet's events, the
// node's name is in place of its UID.
func Node(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

func reference(kind, namespace, name string, uid types.UID, version string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: uid, ResourceVersion: version,
	}
}
