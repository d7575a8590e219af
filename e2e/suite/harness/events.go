package harness

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the agent's events.
const (
	ReasonFailed   = "ProvisioningFailed"
	ReasonRefused  = "VolumeRefused"
	ReasonNotReady = "PoolNotReady"
	ReasonReady    = "PoolReady"
	ReasonIgnored  = "AnnotationIgnored"
	ReasonDelete   = "VolumeFailedDelete"
	ReasonOrphans  = "OrphansFound"
	ReasonMissing  = "VolumeMissing"
	ReasonDamaged  = "RecordsDamaged"
)

// Event is the part of an event that tests compare.
type Event struct {
	Type, Reason, Message string
	// From is the component, Host the node that the component names.
	From, Host string
	Count      int
}

// Events lists the events about the object of that UID. The API server reads all events of the
// namespace for a list, so the namespace is restricted if it is known.
func (s *Scene) Events(uid types.UID) []Event {
	s.Helper()
	namespace := metav1.NamespaceAll
	if home, ok := s.homes.Load(uid); ok {
		namespace = home.(string)
	}
	list, err := s.Client.CoreV1().Events(namespace).List(s.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String(),
	})
	s.must("list events", err)
	var events []Event
	for _, e := range list.Items {
		events = append(events, Event{e.Type, e.Reason, e.Message, e.Source.Component, e.Source.Host, int(max(1, e.Count))})
	}
	return events
}

// notYet is an error with the events of an object, which Error lists.
type notYet struct {
	scene *Scene
	uid   types.UID
	why   string
}

func (e notYet) Error() string {
	return fmt.Sprintf("%s; its events: %v", e.why, e.scene.Events(e.uid))
}

// NotYet returns an error about the object, followed by its events.
func (s *Scene) NotYet(uid types.UID, format string, args ...any) error {
	return notYet{s, uid, fmt.Sprintf(format, args...)}
}

// Ours reports whether the agent or its provisioner library recorded the event.
func (e Event) Ours() bool { return strings.Contains(e.From, "hostpath-provisioner") }

// Warned returns nil if the agent recorded exactly one Warning about the object, with the reason
// and a matching message.
func (s *Scene) Warned(uid types.UID, reason string, patterns ...string) error {
	s.Helper()
	return warned(s.warnings(uid), 1, reason, patterns...)
}

// WarnedAgain is as Warned, but the event may be counted more often: for what the agent retries
// after another client has changed the object. A claim that waits meanwhile may be checked, which
// warns of itself where no node has the space.
func (s *Scene) WarnedAgain(uid types.UID, reason string, patterns ...string) error {
	s.Helper()
	all := slices.DeleteFunc(s.warnings(uid), func(e Event) bool {
		return strings.Contains(e.Message, " requested, and no node has that much available in pool ")
	})
	return warned(all, 3, reason, patterns...)
}

// warnings lists the agent's Warnings about the object.
func (s *Scene) warnings(uid types.UID) []Event {
	s.Helper()
	return slices.DeleteFunc(s.Events(uid), func(e Event) bool { return !e.refuses() })
}

func warned(warnings []Event, most int, reason string, patterns ...string) error {
	if len(warnings) != 1 || warnings[0].Count > most {
		return fmt.Errorf("want 1 warning, which counts %d times at most: %v", most, warnings)
	}
	e := warnings[0]
	if e.Reason != reason {
		return fmt.Errorf("reason %s, want %s: %q", e.Reason, reason, e.Message)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(e.Message) {
			return fmt.Errorf("message %q does not match %q", e.Message, p)
		}
	}
	return nil
}

// WarnedOf returns nil if the agent recorded exactly one Warning about the object that has the reason
// and matches the patterns. There may be others, of an earlier story of the object.
func (s *Scene) WarnedOf(uid types.UID, reason string, patterns ...string) error {
	s.Helper()
	all := s.Events(uid)
	found := 0
	for _, e := range all {
		if e.refuses() && e.Reason == reason && !slices.ContainsFunc(patterns, func(p string) bool { return !regexp.MustCompile(p).MatchString(e.Message) }) {
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("%d warnings %s with %q, want one: %v", found, reason, patterns, all)
	}
	return nil
}

// AwaitWarning waits for the one Warning about the object, and until the agent that recorded it is
// idle, and checks that there is no second one. If the agent is ready, and its classes are those of
// manifests/legacy or manifests/csi, it catches up first, because the provisioner library writes
// its events beside its workers; it needs space for that. a is nil for an agent that is no process
// of the scene.
func (s *Scene) AwaitWarning(a *Agent, uid types.UID, reason string, patterns ...string) {
	s.Helper()
	warned := func() error { return s.Warned(uid, reason, patterns...) }
	s.Eventually("warning", warned)
	switch {
	case a == nil:
	case a.serves() && a.Ready() == nil:
		s.CatchUp(a)
	default:
		s.Idle(a)
	}
	s.Once("one warning", warned)
}

// refuses reports whether the event is a Warning of ours about what does not work. The disk of the
// tests enforces no quotas, and the first claim of an agent is told.
func (e Event) refuses() bool {
	return e.Type == corev1.EventTypeWarning && e.Ours() && e.Reason != "QuotaNotEnforced"
}

// Unwarned returns nil if no agent recorded a Warning about the object.
func (s *Scene) Unwarned(uid types.UID) error {
	s.Helper()
	for _, e := range s.Events(uid) {
		if e.refuses() {
			return fmt.Errorf("warned: %+v", e)
		}
	}
	return nil
}

// NeverMentions returns nil if no line of the agent's log has one of the words, such as the name and
// the UID of a claim that is another agent's. Lines that say that a waiting claim was checked do not
// count: one agent checks those of all nodes, as soon as they have waited for long enough.
func (a *Agent) NeverMentions(words ...string) error {
	a.scene.Helper()
	for line := range strings.Lines(a.Log()) {
		if strings.Contains(line, `"Checked a claim that waits"`) {
			continue
		}
		for _, word := range words {
			if strings.Contains(line, word) {
				return fmt.Errorf("the agent of %s mentions %s: %s", a.Node.Name, word, line)
			}
		}
	}
	return nil
}
