package plugin_test

import (
	"strings"
	"testing"

	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// Agents of raw disks that run and have found nothing are not said to be absent.
func TestDisksOfAgentsThatFoundNone(t *testing.T) {
	c := &scene.Cluster{Minor: "34", Prints: map[string]scene.Answer{"disks-node-01 disks": {Out: "[]"}}}
	c.Add(scene.Node("node-01"), scene.DiskPod("node-01"))
	got := runPlugin(t.Context(), c.Start(t), "disks")
	if want := "the agents of raw disks found no disk, and there are no PVs of theirs: docs/raw-disks.md"; !strings.HasPrefix(got, want) {
		t.Errorf("disks prints %q, want %q", got, want)
	}
}
