package csi

import (
	"slices"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
)

// The table of sidecars in docs/install.md says that two of them exit, and why.
// Change it with this test.
func TestCapabilitiesThatSidecarsNeed(t *testing.T) {
	answer, err := (&Server{}).ControllerGetCapabilities(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []proto.ControllerServiceCapability_RPC_Type
	for _, c := range answer.Capabilities {
		all = append(all, c.GetRpc().GetType())
	}
	for sidecar, needs := range map[string]proto.ControllerServiceCapability_RPC_Type{
		"csi-external-health-monitor-controller": 11, // VOLUME_CONDITION, which CSI 1.13 no longer has
		"csi-snapshotter":                        proto.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	} {
		if slices.Contains(all, needs) {
			t.Errorf("the driver has %s, so %s does not exit", needs, sidecar)
		}
	}
}
