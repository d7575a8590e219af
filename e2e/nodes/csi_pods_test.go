package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// reads waits until the file has that content.
func reads(s *harness.Scene, path, want string) {
	s.Helper()
	s.Eventually("content of "+path, func() error {
		got, err := os.ReadFile(path)
		if err == nil && string(got) != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

// Each replica has a volume of its own on a node of its own, and finds it when the set was away.
func csiStatefulSet(t *testing.T, s *harness.Scene) {
	apply(s, "statefulset.yaml")
	names := []string{"ledger-0", "ledger-1"}
	nodes := map[string]*cluster.Node{}
	for _, name := range names {
		nodes[name] = nodeNamed(s, awaitReady(s, name).Spec.NodeName)
		reads(s, csiPath(nodes[name], harness.PVName(claimNamed(s, "data-"+name)), "index.html"), name+"\n")
	}
	if nodes[names[0]].Name == nodes[names[1]].Name {
		t.Errorf("both replicas are on %s", nodes[names[0]].Name)
	}
	scale := func(replicas string) {
		_, err := kubectl("", "-n", s.Namespace, "scale", "statefulset/ledger", "--replicas="+replicas)
		must(s, "scale", err)
	}
	scale("0")
	_, err := kubectl("", "-n", s.Namespace, "wait", "--for=delete", "pod", "-l", "app=ledger", "--timeout=120s")
	must(s, "wait", err)
	scale("2")
	for _, name := range names {
		if at := awaitReady(s, name).Spec.NodeName; at != nodes[name].Name {
			t.Errorf("%s came back on %s, was on %s", name, at, nodes[name].Name)
		}
		reads(s, csiPath(nodes[name], harness.PVName(claimNamed(s, "data-"+name)), "index.html"), name+"\n"+name+"\n")
	}
}

// The kubelet mounts directories of the volume by themselves, and takes those mounts away before
// the volume's.
func csiSubPath(t *testing.T, s *harness.Scene) {
	claim := csiClaim(s)
	p := pod{claim: claim.Name, script: "echo sub >/sub/file && echo named >/named/file && cat /data/one/two/file", change: func(spec *corev1.PodSpec) {
		c := &spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "ME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: "data", MountPath: "/sub", SubPath: "one/two"},
			corev1.VolumeMount{Name: "data", MountPath: "/named", SubPathExpr: "of-$(ME)"})
	}}.run(s)
	if got := output(s, p); got != "sub\n" {
		t.Errorf("the pod reads %q in the volume, want what it wrote below the path", got)
	}
	n, volume := nodeNamed(s, p.Spec.NodeName), s.Bound(claim).Name
	reads(s, csiPath(n, volume, "one", "two", "file"), "sub\n")
	reads(s, csiPath(n, volume, "of-"+p.Name, "file"), "named\n")
	end(s, p)
	s.Delete(claim)
	s.Gone(volume)
	csiGone(s, volume)
}

// ReadWriteOnce means one node: two pods there have the volume at once, and one that ends takes
// nothing from the other.
func csiShared(t *testing.T, s *harness.Scene) {
	claim, first, volume := csiWriter(s, other)
	second := pod{claim: claim.Name, script: "test -s /data/clock; while sleep 0.2; do date >/data/second; done & true"}.run(s)
	if second.Spec.NodeName != other.Name {
		t.Errorf("the second pod is on %s, the volume on %s", second.Spec.NodeName, other.Name)
	}
	csiWrites(s, other, volume)
	end(s, first)
	path := csiPath(other, volume, "second")
	must(s, "remove", os.Remove(path))
	s.Eventually("the second pod writes", func() error { return harness.Exists(path) })
}

// ReadWriteOncePod means one pod: the scheduler keeps the second back until the first has ended.
func csiOnePod(t *testing.T, s *harness.Scene) {
	claim := s.Create(harness.Claim{Class: csiClass, Mode: corev1.ReadWriteOncePod})
	first := pod{claim: claim.Name, script: "echo first >/data/file"}.run(s)
	second := pod{claim: claim.Name, script: "cat /data/file"}.create(s)
	s.Eventually("the scheduler's word", func() error {
		return said(s, "involvedObject.uid", string(second.UID), "FailedScheduling", "ReadWriteOncePod", second.CreationTimestamp.Time)
	})
	end(s, first)
	if got := output(s, awaitReady(s, second.Name)); got != "first\n" {
		t.Errorf("the second pod reads %q", got)
	}
}

// The examples run as they are.
func csiExamples(t *testing.T, s *harness.Scene) {
	for _, name := range []string{"csi-claim-and-pod.yaml", "csi-inline-volume.yaml", "csi-generic-volume.yaml"} {
		apply(s, name)
	}
	journal := nodeNamed(s, awaitReady(s, "journal").Spec.NodeName)
	path := csiPath(journal, s.Bound(claimNamed(s, "journal")).Name, "journal")
	s.Eventually("a line in the journal", func() error {
		data, err := os.ReadFile(path)
		if err == nil && !strings.HasSuffix(string(data), "\n") {
			err = fmt.Errorf("%q", data)
		}
		return err
	})
	if got := strings.TrimSpace(command(s, "stat", "-c", "%u %g", path)); got != "1000 1000" {
		t.Errorf("the journal belongs to %s, want 1000 1000", got)
	}
	claimed := nodeNamed(s, awaitReady(s, "scratch-claimed").Spec.NodeName)
	csiFilled(s, csiPath(claimed, s.Bound(claimNamed(s, "scratch-claimed-scratch")).Name, "file"))
	scratch := nodeNamed(s, awaitReady(s, "scratch").Spec.NodeName)
	csiFilled(s, csiPath(scratch, "csi-*", "file"))
}

// csiFilled waits until the one file that matches has the 64 MiB of the examples.
func csiFilled(s *harness.Scene, pattern string) {
	s.Helper()
	s.Eventually("64 MiB in "+pattern, func() error {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("files %v, want one", found)
		}
		info, err := os.Stat(found[0])
		if err == nil && info.Size() != 64<<20 {
			err = fmt.Errorf("%d bytes", info.Size())
		}
		return err
	})
}
