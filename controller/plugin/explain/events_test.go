package explain

import (
	"strings"
	"testing"

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
