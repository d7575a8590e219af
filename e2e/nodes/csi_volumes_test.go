package nodes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	s.Eventually("directory of "+volume+" gone", func() error {
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
	p := pod{script: "echo own >/data/mine", change: inline("12Mi")}.run(s)
	n := nodeNamed(s, p.Spec.NodeName)
	volumes, err := filepath.Glob(csiPath(n, "csi-*", "mine"))
	if err != nil || len(volumes) != 1 {
		t.Fatalf("inline volumes on %s: %v, %v; want one", n.Name, volumes, err)
	}
	name := filepath.Base(filepath.Dir(volumes[0]))
	driver := awaitDriver(s, n)
	if v := volumeOf(inspectIn(s, driver), name); v == nil || !v.Ephemeral || v.Bytes != 12<<20 || v.Owner.Name != p.Name {
		t.Errorf("inspect says %+v, want a volume of 12Mi of pod %s", v, p.Name)
	}
	end(s, p)
	csiGone(s, name)
	if v := volumeOf(inspectIn(s, driver), name); v != nil {
		t.Errorf("inspect still allocates %+v", v)
	}
}

// inline makes a pod's volume one without a claim.
func inline(size string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: csiDriver, VolumeAttributes: map[string]string{"size": size},
		}}
	}
}

// The scheduler was not asked, so the pod waits on its node and is told why.
func csiInlineTooBig(_ *testing.T, s *harness.Scene) {
	p := pod{hostname: one.Hostname, change: inline(tooBig)}.create(s)
	s.Eventually("mount refused", func() error {
		return said(s, "involvedObject.uid", string(p.UID), "FailedMount", "ResourceExhausted", p.CreationTimestamp.Time)
	})
}

// The container's mount is read-only by the kubelet's doing, the one below it by the driver's.
func csiReadOnly(t *testing.T, s *harness.Scene) {
	claim := csiClaim(s)
	end(s, pod{claim: claim.Name, script: "echo kept >/data/file"}.run(s))
	p := pod{claim: claim.Name, script: "touch /data/new 2>&1; cat /data/file", change: func(spec *corev1.PodSpec) {
		spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	}}.run(s)
	if got, want := output(s, p), "touch: /data/new: Read-only file system\nkept\n"; got != want {
		t.Errorf("the pod says %q, want %q", got, want)
	}
	target := "/var/lib/kubelet/pods/" + string(p.UID) + "/volumes/kubernetes.io~csi/" + harness.PVName(claim) + "/mount"
	if _, err := onNode(nodeNamed(s, p.Spec.NodeName), "touch", target+"/new"); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
		t.Errorf("the node writes into what is published read-only: %v", err)
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
