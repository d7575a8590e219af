package events

import "k8s.io/apimachinery/pkg/runtime"

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
