package events

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestEventName(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"}}
	ref := Claim(claim)
	if eventName(ref, "space") == eventName(ref, "ready") {
		t.Error("two topics share an event")
	}
	if eventName(ref, "space") != eventName(Claim(claim), "space") {
		t.Error("one topic has two names")
	}
	ref.Name = strings.Repeat("x", 253)
	if n := len(eventName(ref, "space")); n > 253 {
		t.Errorf("a name of %d bytes is too long", n)
	}
}

// The API server refuses an event if its name, or a part of it, ends with "-", or if a part is
// empty.
func TestEventNameIsValid(t *testing.T) {
	for _, at := range []string{".", "-", "a.", "a-"} {
		claim := strings.Repeat("a", 235) + at + strings.Repeat("b", 17)
		for cut := range 4 {
			name := eventName(corev1.ObjectReference{Name: claim[cut:], UID: "uid"}, "space")
			if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
				t.Errorf("event ...%s: %s", name[225:], why[0])
			}
		}
	}
}
