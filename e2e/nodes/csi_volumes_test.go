package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// csiPath is where the machine has a volume of the node.
func csiPath(n *cluster.Node, volume string, names ...string) string {
	return hostPath(n, "csi", append([]string{volume}, names...)...)
}

// csiGone waits until no node has the volume's directory.
func csiGone(s *harness.Scene, volume string) {
	s.Helper()
	s.Eventually(soon, "directory of "+volume+" gone", func() error {
		return errors.Join(harness.Missing(csiPath(one, volume)), harness.Missing(csiPath(other, volume)))
	})
}

func csiClaim(s *harness.Scene) *corev1.PersistentVolumeClaim {
	return s.Create(harness.Claim{Class: csiClass})
}

// The scheduler chooses, the pod writes, the next pod reads, and the directory goes with the claim.
func csiPersists(t *testing.T, s *harness.Scene) {
	claim := csiClaim(s)
	p := pod{claim: claim.Name, script: "echo written >/data/file"}.run(s)
	n := nodeNamed(s, p.Spec.NodeName)
	volume := s.Bound(claim).Name
	if got, err := os.ReadFile(csiPath(n, volume, "file")); string(got) != "written\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
	end(s, p)
	again := pod{claim: claim.Name, script: "cat /data/file"}.run(s)
	if got := output(s, again); got != "written\n" || again.Spec.NodeName != n.Name {
		t.Errorf("the next pod is on %s and reads %q; the data is on %s", again.Spec.NodeName, got, n.Name)
	}
	end(s, again)
	s.Delete(claim)
	s.Gone(volume)
	csiGone(s, volume)
}

// A pod's own claim, made and deleted with it; no other pod may have it.
func csiGeneric(t *testing.T, s *harness.Scene) {
	class := csiClass
	p := pod{script: "echo own >/data/file", change: func(spec *corev1.PodSpec) {
		spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")}},
			}},
		}}
	}}.run(s)
	volume := s.Bound(claimNamed(s, p.Name+"-data")).Name
	if got, err := os.ReadFile(csiPath(nodeNamed(s, p.Spec.NodeName), volume, "file")); string(got) != "own\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
	end(s, p)
	s.Gone(volume)
	csiGone(s, volume)
}

// A pod's own volume without a claim: nobody but the driver knows of it.
func csiInline(t *testing.T, s *harness.Scene) {
	p := pod{script: "echo own >/data/file", change: func(spec *corev1.PodSpec) {
		spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: csiDriver, VolumeAttributes: map[string]string{"size": "10Mi"},
		}}
	}}.run(s)
	n := nodeNamed(s, p.Spec.NodeName)
	volumes, err := filepath.Glob(csiPath(n, "csi-*", "file"))
	if err != nil || len(volumes) != 1 {
		t.Fatalf("inline volumes on %s: %v, %v; want one", n.Name, volumes, err)
	}
	end(s, p)
	csiGone(s, filepath.Base(filepath.Dir(volumes[0])))
}

func csiReadOnly(t *testing.T, s *harness.Scene) {
	claim := csiClaim(s)
	end(s, pod{claim: claim.Name, script: "echo kept >/data/file"}.run(s))
	p := pod{claim: claim.Name, script: "touch /data/new 2>&1; cat /data/file", change: func(spec *corev1.PodSpec) {
		spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	}}.run(s)
	if got, want := output(s, p), "touch: /data/new: Read-only file system\nkept\n"; got != want {
		t.Errorf("the pod says %q, want %q", got, want)
	}
}

// The kubelet gives the volume to the pod's group; the pod's user is nobody special.
func csiFSGroup(t *testing.T, s *harness.Scene) {
	group := int64(2000)
	p := pod{claim: csiClaim(s).Name, user: 1000, script: "touch /data/new && stat -c '%u %g' /data/new; stat -c %g /data",
		change: func(spec *corev1.PodSpec) { spec.SecurityContext.FSGroup = &group }}.run(s)
	if got, want := output(s, p), "1000 2000\n2000\n"; got != want {
		t.Errorf("the pod says %q, want %q", got, want)
	}
}

const tooBig = "900Ti"

// The scheduler knows that no node can hold it.
func csiTooBig(t *testing.T, s *harness.Scene) {
	claim := s.Create(harness.Claim{Class: csiClass, Size: tooBig})
	p := pod{claim: claim.Name}.create(s)
	s.Eventually(soon, "the scheduler's word", func() error {
		events := s.Events(p.UID)
		if !slices.ContainsFunc(events, func(e harness.Event) bool {
			return e.Reason == "FailedScheduling" && strings.Contains(e.Message, "not have enough free storage")
		}) {
			return fmt.Errorf("events: %v", events)
		}
		return nil
	})
	if err := s.IsPending(claim); err != nil {
		t.Error(err)
	}
}

// A node that was chosen all the same refuses with the numbers, and gives the claim back.
func csiNoSpace(t *testing.T, s *harness.Scene) {
	begin := time.Now()
	claim := s.Create(harness.Claim{Class: csiClass, Size: tooBig})
	_, err := kubectl("", "-n", s.Namespace, "annotate", "pvc", claim.Name, harness.AnnSelectedNode+"="+one.Name)
	must(s, "choose a node", err)
	s.Eventually(soon, "the sidecar's word", func() error {
		return said(s, "involvedObject.name", claim.Name, "ProvisioningFailed", "ResourceExhausted", begin)
	})
	s.Eventually(soon, "given back", func() error {
		if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("it is on %s", on)
		}
		return s.IsPending(claim)
	})
}
