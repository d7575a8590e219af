package monitor_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
)

func TestSharedWithOS(t *testing.T) {
	for path, want := range map[string]bool{"/": true, "/proc": false} {
		if got, err := monitor.SharedWithOS(path); err != nil || got != want {
			t.Errorf("SharedWithOS(%s) = %v, %v", path, got, err)
		}
	}
	if _, err := monitor.SharedWithOS("/no/such/path"); err == nil {
		t.Error("a path that is not there is no answer")
	}
}
