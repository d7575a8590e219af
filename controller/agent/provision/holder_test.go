package provision

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

func TestHeldHere(t *testing.T) {
	for by, want := range map[string]bool{
		Holder("node-01", "a") + ", pid 7": true,
		Holder("node-011", "a"):            false,
		Holder("node-02", "a"):             false,
		"somebody":                         false,
	} {
		if got := heldHere(&fault.Error{Err: &fault.HeldError{By: by}}, "node-01"); got != want {
			t.Errorf("held by %q: here %v", by, got)
		}
	}
	if heldHere(volume.ErrNotReady, "node-01") {
		t.Error("a pool that nobody holds is held")
	}
}
