package suite

import (
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// killed has the operator killed at each of its writes, before the API server gets it and after.
// What it began is finished by the next operator, and a volume that is kept is not touched.
func (g *goneScene) killed() {
	edit := func(policy string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) { c.Annotations = map[string]string{annNodeGone: policy} }
	}
	g.agent.Restart()
	g.agent.AwaitReady()
	released := g.Create(harness.Claim{Class: g.Class("killed", edit("release")), Node: g.node.Name})
	kept := g.Create(harness.Claim{Class: g.Class("killed-kept", edit("keep")), Node: g.node.Name})
	g.Bound(released)
	g.Bound(kept)
	g.agent.Stop()
	gate := newGate(g.Scene, g.operator, "/persistentvolumes/", "/persistentvolumeclaims/")
	g.remove()
	kills := gate.killedUntil(func() error { return g.IsGone(harness.PVName(released)) }, nil)
	if len(kills) != 8 {
		g.Errorf("killed at %q, want it before and after the policy Retain, the claim's deletion, the PV's, and the removal of the finalizer", kills)
	}
	gate.opens()
	g.ClaimGone(released)
	g.Bound(kept)
	awaitEvent(g.Scene, released.UID, "VolumeReleased", "so the claim is deleted")
	g.Eventually("metrics", func() error { return g.counts(1, 0, 0) })
}
