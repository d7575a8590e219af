package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// A cause that an agent has recorded as well is shown once, and the event stays in the table of events. An event that says
// something else is a cause of its own.
func TestCauseIsShownOnce(t *testing.T) {
	for message, causes := range map[string]int{
		"60Gi requested, and no node has that much available in pool local: the most is 50Gi, on node node-01, of 2 with that pool": 1,
		"pool local is not ready": 2,
	} {
		c := scene.Healthy()
		wait(c)
		request(c, "60Gi")
		c.Event("PersistentVolumeClaim", "new", "ProvisioningFailed", message)
		a := Explain(read(t, c, "new"))
		if got := strings.Count(text(a), "cause: "); got != causes || len(a.Events) != 1 {
			t.Errorf("%s: %d causes, want %d, and %d events:\n%s", message, got, causes, len(a.Events), text(a))
		}
	}
}

// What a try before the copy failed with is no cause while the volume is copied.
func TestCopyingIsNoCause(t *testing.T) {
	for ago, causes := range map[time.Duration]int{30 * time.Second: 0, 5 * time.Minute: 1} {
		c := scene.Healthy()
		copyData("data", wait)(c)
		c.Event("PersistentVolumeClaim", "new", events.ProvisioningFailed, "the pod of claim data uses it")
		copying := c.Event("PersistentVolumeClaim", "new", events.Copying, "node node-01 copies the volume")
		copying.Type, copying.LastTimestamp = corev1.EventTypeNormal, scene.Ago(ago)
		a := Explain(read(t, c, "new"))
		if got := text(a); strings.Count(got, "cause: ") != causes || strings.Contains(got, "note: 30s ago: node node-01 copies") != (causes == 0) {
			t.Errorf("copying since %s: want %d causes\n%s", ago, causes, got)
		}
	}
	c := scene.Healthy()
	c.Event("PersistentVolumeClaim", "data", events.Copying, "node node-01 copies the volume").Type = corev1.EventTypeNormal
	if got := text(Explain(read(t, c, "data"))); strings.Contains(got, "ago: node node-01 copies") {
		t.Errorf("of a claim that is bound:\n%s", got)
	}
}
