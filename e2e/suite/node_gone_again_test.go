package suite

import (
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// annotations of PVs and Nodes that are given up.
const (
	annGiveUp = "hostpath-provisioner.kubevirt.io/give-up"
	annFormer = "hostpath-provisioner.kubevirt.io/former-reclaim-policy"
)

// anew deletes the Node and creates one of its name, which has another UID.
func (g *goneScene) anew() (uid string) {
	g.Helper()
	g.remove()
	pool := g.node.Pool
	g.node = g.NodeNamed(g.node.Name, g.node.Hostname)
	g.node.Pool = pool
	node, err := g.Client.CoreV1().Nodes().Get(g.Context(), g.node.Name, metav1.GetOptions{})
	if err != nil {
		g.Fatal(err)
	}
	return string(node.UID)
}

// filled creates a volume with data in each pool, of classes with these names and this policy.
func (g *goneScene) filled(name, policy string) (path, csi *corev1.PersistentVolumeClaim) {
	g.Helper()
	edit := func(c *storagev1.StorageClass) {
		delayed := storagev1.VolumeBindingWaitForFirstConsumer
		c.VolumeBindingMode, c.Annotations = &delayed, map[string]string{annNodeGone: policy}
	}
	path = g.Create(harness.Claim{Class: g.Class("path-"+name, edit), Selected: g.node.Name})
	csi = g.Create(harness.Claim{Class: g.CSIClass("csi-"+name, edit), Selected: g.node.Name})
	for _, claim := range []*corev1.PersistentVolumeClaim{path, csi} {
		g.Bound(claim)
		g.Write(g.directory(claim), "data", []byte("precious"))
	}
	return path, csi
}

// boundTo waits until the PV of a claim has the UID of a Node.
func (g *goneScene) boundTo(claim *corev1.PersistentVolumeClaim, uid string) {
	g.Helper()
	g.Eventually("the UID of the Node that was registered again", func() error {
		if is := g.PV(harness.PVName(claim)).Annotations[harness.AnnNodeUID]; is != uid {
			return fmt.Errorf("PV of %s has %q, want %q", claim.Name, is, uid)
		}
		return nil
	})
}

// registeredAgain has the Node deleted and registered again while its agent runs, as a restart of
// the kubelet does. The agent corrects its PVs. Later it ends for longer than the grace period:
// nothing is given up.
func (g *goneScene) registeredAgain() {
	g.agent.Restart()
	g.agent.AwaitReady()
	path, csi := g.filled("again", "release")
	uid := g.anew()
	for _, claim := range []*corev1.PersistentVolumeClaim{path, csi} {
		g.boundTo(claim, uid)
		if g.PV(harness.PVName(claim)).Annotations[harness.AnnCluster] == "" {
			g.Errorf("the PV of %s has no mark of the cluster", claim.Name)
		}
	}
	g.agent.Stop()
	g.afterGrace()
	g.Once("untouched", func() error { return g.counts(0, 0, 0) })
	g.agent.Restart()
	g.agent.AwaitReady()
	for _, claim := range []*corev1.PersistentVolumeClaim{path, csi} {
		g.Bound(claim)
		g.Delete(claim)
		g.Gone(harness.PVName(claim))
	}
	g.agent.Stop()
}

// rebuilt has a Node made again whose pool of CSI volumes has an empty disk. Its volume is kept and
// reported, until an administrator gives it up by the annotation, under the policy keep too. Then
// the agent opens a pool on the new disk. The volume of the other pool stays.
func (g *goneScene) rebuilt() {
	g.agent.Restart()
	g.agent.AwaitReady()
	path, csi := g.filled("rebuilt", "keep")
	g.agent.Stop()
	uid := g.anew()
	lost := g.csiPool + "-lost"
	if err := os.Rename(g.csiPool, lost); err != nil {
		g.Fatal(err)
	}
	if err := os.Mkdir(g.csiPool, 0o755); err != nil {
		g.Fatal(err)
	}
	g.agent.Restart()
	g.boundTo(path, uid)
	annotation := annGiveUp + "=" + uid
	awaitEvent(g.Scene, csi.UID, "VolumeNodeGone", "kubectl annotate --overwrite node "+g.node.Name+" "+annotation)
	g.Eventually("kept", func() error { return g.counts(1, 0, 0) })
	g.Bound(csi)
	g.Shell("kubectl annotate --overwrite node " + g.node.Name + " " + annotation)
	g.ClaimGone(csi)
	g.Gone(harness.PVName(csi))
	g.agent.AwaitReady()
	if pv := g.Bound(path); pv.Annotations[annFormer] != "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		g.Errorf("the PV of the other pool was given up: %s, %v", pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
	}
	for _, at := range []string{g.directory(path), filepath.Join(lost, harness.PVName(csi))} {
		if data, err := os.ReadFile(filepath.Join(at, "data")); string(data) != "precious" {
			g.Errorf("data of %s: %q, %v", at, data, err)
		}
	}
	g.Delete(path)
	g.Gone(harness.PVName(path))
	g.agent.Stop()
}
