package events

import "k8s.io/apimachinery/pkg/runtime"

// Discard records no events: in driver-only mode the agent has no API server. The
// log has what an event would say.
type Discard struct{}

// Event implements record.EventRecorder.
func (Discard) Event(runtime.Object, string, string, string) {}

// Eventf implements record.EventRecorder.
func (Discard) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf implements record.EventRecorder.
func (Discard) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
