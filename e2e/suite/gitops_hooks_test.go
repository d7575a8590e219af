package suite

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// hook runs the program of a Job of a render, as the account that the render has for it, and returns
// what it printed.
func (g *gitops) hook(render, job string) (string, error) {
	g.Helper()
	var command []string
	var rest []string
	for _, o := range read(g.Scene, "e2e/chart/renders/"+render+".yaml") {
		switch {
		case o.GetAnnotations()["helm.sh/hook"] == "":
		case o.GetKind() != "Job":
			rest = append(rest, text(g.Scene, o))
		case o.GetName() == job:
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			command, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "command")
		}
	}
	if len(command) < 3 || len(rest) != 3 {
		g.Fatalf("%s has the command %q of %s, and %d other hooks", render, command, job, len(rest))
	}
	g.tool.apply(written(g.Scene, "hooks.yaml", strings.Join(rest, "---\n")))
	kubeconfig, err := g.Plane.ServiceAccountKubeconfig(g.Context(), harness.Namespace, "hostpath-provisioner-removal")
	if err != nil {
		g.Fatal(err)
	}
	program, err := g.Manager()
	if err != nil {
		g.Fatal(err)
	}
	cmd := exec.Command(program, command[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Argo CD runs the chart's Jobs as hooks: that of an upgrade before each sync, that of a removal
// before it deletes the Application. The first protects nothing there, because Argo CD sets no
// annotation of Helm; the second protects as it does with Helm.
func TestGitOpsHooks(t *testing.T) {
	t.Parallel()
	s := ownPlane(t).Scene(t)
	g := newArgo(s)
	passes := func(when, render, job string) {
		t.Helper()
		if out, err := g.hook(render, job); err != nil {
			t.Errorf("%s: %s of %s: %v\n%s", when, job, render, err, out)
		}
	}
	refuses := func(render, job string, words ...string) {
		t.Helper()
		out, err := g.hook(render, job)
		if err == nil || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) }) {
			t.Errorf("%s of %s: %v; want a refusal with %q\n%s", job, render, err, words, out)
		}
	}
	const upgrade, removal = "hostpath-provisioner-upgrade", "hostpath-provisioner-removal"

	passes("before the first sync", "csi", upgrade)
	g.tool.apply(g.withoutHooks("chart/renders/csi.yaml", "csi.yaml"))
	(&operated{Scene: s}).pv("of-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-csi"}})
	passes("before the next sync", "csi", upgrade)
	passes("before a sync that takes the driver away", "legacy", upgrade)
	passes("before a removal while nothing needs the agents", "csi", removal)

	pod := harness.NewPod("none")
	pod.Spec.Affinity = nil
	pod.Spec.NodeName = s.Node("01").Name
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: harness.Driver}}
	made, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refuses("csi", removal, "pods with CSI volumes cannot end without the agents", made.Name)
	passes("before a removal of a form without CSI volumes", "legacy", removal)

	passes("before a removal while there is no resource", "operator", removal)
	define(s)
	if _, err := resources(s).Create(s.Context(), installation(serving, pools("local=/srv/local")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refuses("operator", removal, "HostPathProvisioner resources need the operator", serving)
}
