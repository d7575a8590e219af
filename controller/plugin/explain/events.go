package explain

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Event is an event about the claim, its PV or its node.
type Event struct {
	Age     string `json:"age"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	// Do is what the reason asks for, without links.
	Do string `json:"do,omitempty"`
}

// events adds the events, and the newest Warning about each object as a finding. One about a claim
// that waits is a cause: what recorded it has seen more than the API server shows. It is none if the
// volume is being copied since. What a finding has already is not repeated.
func (e *explanation) events() {
	e.list("claim", e.Events.Items)
	e.list("PV", e.PVEvents.Items)
	e.list("node", ofNode(e.NodeEvents.Items))
	seen := map[string]bool{}
	waits, copying := e.Claim.Status.Phase != corev1.ClaimBound, false
	for _, event := range e.answer.Events { // the newest of an object first
		if waits && event.Reason == events.Copying && !seen[event.Object] {
			copying = true
			e.add(Note, "", "%s ago: %s", event.Age, event.Message)
		}
		if event.Type != corev1.EventTypeWarning || seen[event.Object] {
			continue
		}
		seen[event.Object] = true
		if slices.ContainsFunc(e.answer.Findings, func(f Finding) bool { return says(f, event.Message) }) {
			continue
		}
		level, do := Warning, event.Do
		if event.Object == "claim" && waits && !copying && (e.Claim.Spec.VolumeName == "" || e.PV.It != nil) {
			level = Cause
		}
		if strings.HasPrefix(do, "do what the message says") { // it stands before
			do = ""
		}
		e.add(level, do, "%s ago, event %s of the %s: %s", event.Age, event.Reason, event.Object, event.Message)
	}
}

// noSpace matches the message of an agent that no node has the space. The cause of explain has the nodes that the pod may use.
var noSpace = regexp.MustCompile(`^\S+ requested, and no node has that much available in pool `)

// says reports whether a finding has what the message of an event has.
func says(f Finding, message string) bool {
	return strings.Contains(message, f.What) || strings.Contains(f.What, message) ||
		f.Level == Cause && strings.Contains(f.What, " are requested, and ") && noSpace.MatchString(message)
}

// list adds the newest event of each reason.
func (e *explanation) list(object string, all []corev1.Event) {
	seen := map[string]bool{}
	for i := range all {
		event := &all[i]
		if seen[event.Reason] {
			continue
		}
		seen[event.Reason] = true
		e.answer.Events = append(e.answer.Events, Event{Age: age(e.Now, cluster.Last(event)), Type: event.Type,
			Reason: event.Reason, Object: object, Message: event.Message, Do: askedBy(event.Reason)})
	}
}

// ofNode returns the events of a node that this project records: a kubelet records many others.
func ofNode(all []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e corev1.Event) bool { return row(e.Reason) == nil })
}

// askedBy returns what the reference of events asks for at a reason. Links of the page are shown by
// their text.
func askedBy(reason string) string {
	r := row(reason)
	if r == nil {
		return ""
	}
	var b strings.Builder
	for text := r.Action; ; {
		before, rest, ok := strings.Cut(text, "[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, rest, _ := strings.Cut(rest, "](")
		_, text, _ = strings.Cut(rest, ")")
		b.WriteString("docs/" + name)
	}
}

func row(reason string) *events.Reason {
	all := events.Reasons()
	i := slices.IndexFunc(all, func(r events.Reason) bool { return r.Name == reason })
	if i < 0 {
		return nil
	}
	return &all[i]
}
