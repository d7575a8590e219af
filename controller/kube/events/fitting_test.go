package events

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// A text that is too long is cut, and is no format.
func TestFitting(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	Fitting(recorder).Eventf(&corev1.Pod{}, nil, "Normal", "R", "A", "%s%%d", strings.Repeat("x; ", 2000))
	if e := <-recorder.Events; len(e) > MaxNote+20 || !strings.HasSuffix(e, "more") {
		t.Errorf("%d bytes: %s", len(e), e[len(e)-50:])
	}
}
