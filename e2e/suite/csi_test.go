package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// local is an agent of CSI claims whose one pool is the node's, with the name that the class of
// manifests/csi has.
func local(node harness.Node, flags ...string) harness.Options {
	return harness.Options{CSI: "csi", DataDir: harness.Datadir(harness.LocalPool, node.Pool), Flags: flags}
}

// csiNode is a scene with one node and its agent of CSI claims.
func csiNode(t *testing.T) (*harness.Scene, *harness.Agent) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	return s, s.Agent(node, local(node))
}

// csiNodes is a scene with two of them.
func csiNodes(t *testing.T) (s *harness.Scene, first, second *harness.Agent) {
	t.Helper()
	s = env.Scene(t)
	one, two := s.Node("01"), s.Node("02")
	first, second = s.Start(one, local(one, logChecks)), s.Start(two, local(two, logChecks))
	first.AwaitReady()
	second.AwaitReady()
	return s, first, second
}

// handleOf returns nil where the volume of the CSI PV is in the pool.
func handleOf(pool string, pv *corev1.PersistentVolume) error {
	return harness.Exists(filepath.Join(pool, pv.Spec.CSI.VolumeHandle))
}

// The whole way: the scheduler chooses, the volume is made there, and goes with its claim.
func TestCSIWithPod(t *testing.T) {
	t.Parallel()
	s, a, other := csiNodes(t)
	class := s.CSIClass("plain", nil)
	claim := s.Create(harness.Claim{Class: class, Size: "12345678"})
	s.CatchUp(other)
	s.Holds(a, "claim without a pod", func() error { return s.IsPending(claim) })
	pod := s.Pod(claim.Name, a.Node.Hostname)
	if node := s.Scheduled(pod); node != a.Node.Name {
		t.Errorf("pod on %s, want %s", node, a.Node.Name)
	}
	pv := s.Bound(claim)
	name := harness.PVName(claim)
	wantTree(s, a.Pool, name)
	wantTree(s, other.Pool)
	wantCSIMeta(s, a, pv)
	wantCSISpec(s, a, pv, claim)
	s.Eventually("record bound", func() error {
		v := a.Volume(name)
		if v.State != "bound" || v.PV != pv.Name || v.Bytes != 12345678 || v.ReclaimPolicy != "Delete" || v.Adopted ||
			v.Owner.Namespace != s.Namespace || v.Owner.Name != claim.Name || v.Owner.UID != string(claim.UID) {
			return fmt.Errorf("record %+v", v)
		}
		return nil
	})
	if err := other.NeverMentions(claim.Name, string(claim.UID)); err != nil {
		t.Error(err)
	}
	s.DeletePod(pod)
	s.Delete(claim)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

func wantCSIMeta(s *harness.Scene, a *harness.Agent, pv *corev1.PersistentVolume) {
	s.Helper()
	wantMetaWith(s, a, pv, map[string]string{
		harness.AnnProvisionedBy: harness.Driver,
		harness.AnnPool:          a.Inspect().Pool.ID,
	})
}

func wantCSISpec(s *harness.Scene, a *harness.Agent, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	filesystem := corev1.PersistentVolumeFilesystem
	want := corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("12345678")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: harness.Driver, VolumeHandle: harness.PVName(claim), FSType: "xfs",
			VolumeAttributes: map[string]string{harness.StoragePool: harness.LocalPool},
		}},
		ClaimRef: &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: s.Namespace, Name: claim.Name, UID: claim.UID,
			ResourceVersion: pv.Spec.ClaimRef.ResourceVersion,
		},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		StorageClassName:              *claim.Spec.StorageClassName,
		VolumeMode:                    &filesystem,
		NodeAffinity:                  topologyAffinity(a.Node.Name),
	}
	if !equality.Semantic.DeepEqual(pv.Spec, want) {
		s.Errorf("spec of PV\n%v, want\n%v", pv.Spec, want)
	}
}

// topologyAffinity is that of the CSI PVs of a node.
func topologyAffinity(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: harness.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}

// What a class says is on the PV.
func TestCSIClass(t *testing.T) {
	t.Parallel()
	s, a := csiNode(t)
	retain := corev1.PersistentVolumeReclaimRetain
	class := s.CSIClass("retain", func(c *storagev1.StorageClass) {
		c.ReclaimPolicy, c.MountOptions = &retain, []string{"noatime", "nodev"}
		c.Parameters["csi.storage.k8s.io/fstype"] = "ext4"
	})
	claim := s.Create(harness.Claim{Class: class, Selected: a.Node.Name, Mode: corev1.ReadWriteOncePod})
	pv := s.Bound(claim)
	if pv.Spec.PersistentVolumeReclaimPolicy != retain || pv.Spec.CSI.FSType != "ext4" ||
		!slices.Equal(pv.Spec.MountOptions, []string{"noatime", "nodev"}) || pv.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
		t.Errorf("spec of PV %+v, want Retain, ext4, the class's mount options and ReadWriteOncePod", pv.Spec)
	}
	path := filepath.Join(a.Pool, pv.Spec.CSI.VolumeHandle)
	s.Write(path, "data", []byte("precious"))
	s.Delete(claim)
	s.Released(pv.Name)
	s.Holds(a, "data kept", func() error {
		if data, err := os.ReadFile(filepath.Join(path, "data")); string(data) != "precious" {
			return fmt.Errorf("data: %q, %w", data, err)
		}
		return firstError(handleOf(a.Pool, s.PV(pv.Name)), s.Unwarned(pv.UID))
	})
	s.PatchPV(pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// The scheduler chooses the node of a CSI volume. An annotation that says otherwise is ignored,
// which one agent says once, whether the claim waits then or has its volume.
func TestCSIAnnotationIgnored(t *testing.T) {
	t.Parallel()
	s, a, other := csiNodes(t)
	claim := s.Create(harness.Claim{Class: harness.ClassCSI, Node: other.Node.Name})
	s.CatchUp(other)
	s.Holds(a, "annotation alone", func() error { return firstError(s.IsPending(claim), s.Unwarned(claim.UID)) })
	s.Pod(claim.Name, a.Node.Hostname)
	pv := s.Bound(claim)
	wantTree(s, a.Pool, pv.Name)
	wantTree(s, other.Pool)
	once := func() error {
		count := 0
		for _, e := range s.Events(claim.UID) {
			if e.Reason == harness.ReasonIgnored && e.Type == corev1.EventTypeNormal &&
				strings.Contains(e.Message, harness.AnnProvisionOnNode) && strings.Contains(e.Message, "nodeSelector") {
				count += e.Count
			}
		}
		if count != 1 {
			return fmt.Errorf("said %d times, want once: %v", count, s.Events(claim.UID))
		}
		return s.Unwarned(claim.UID)
	}
	s.Eventually("event", once)
	a.Stop()
	a.Restart()
	a.AwaitReady()
	s.Holds(a, "said once", once)
}

// Nobody chooses a node for a claim of an Immediate class, also where it has the annotation. One
// agent of all says so; the agents that serve hostPath claims alone have no part in it.
func TestCSIImmediate(t *testing.T) {
	t.Parallel()
	s, a, b := csiNodes(t)
	host := s.Agent(s.Node("03"), harness.Options{})
	class := s.CSIClass("immediate", func(c *storagev1.StorageClass) {
		mode := storagev1.VolumeBindingImmediate
		c.VolumeBindingMode = &mode
	})
	plain, annotated := s.Create(harness.Claim{Class: class}), s.Create(harness.Claim{Class: class, Node: a.Node.Name})
	warned := func() error {
		return firstError(
			s.Warned(plain.UID, harness.ReasonFailed, "WaitForFirstConsumer", class),
			s.Warned(annotated.UID, harness.ReasonFailed, "WaitForFirstConsumer", class))
	}
	s.Eventually("warnings", warned)
	awaitChecks(s, plain, a, b)
	awaitChecks(s, annotated, a, b)
	s.Once("one warning each", warned)
	for _, claim := range []*corev1.PersistentVolumeClaim{plain, annotated} {
		if err := s.IsPending(claim); err != nil {
			t.Error(err)
		}
		wantUnwritten(s, claim)
		if err := host.NeverMentions(claim.Name); err != nil {
			t.Error(err)
		}
	}
	for _, agent := range []*harness.Agent{a, b, host} {
		wantTree(s, agent.Pool)
		if len(s.Capacities(class, agent.Node)) > 0 {
			t.Errorf("capacity is published for a class that the scheduler never asks about, on %s", agent.Node.Name)
		}
	}
}
