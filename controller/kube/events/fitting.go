package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Fitting returns a recorder that cuts the text of an event to MaxNote, and gives it to another one.
func Fitting(recorder events.EventRecorder) events.EventRecorder { return fitting{recorder} }

type fitting struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (f fitting) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	f.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", Fit(fmt.Sprintf(note, args...), MaxNote))
}
