package nodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/chart"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The chart takes over what kustomize installed, under a pod that writes; it is upgraded, refuses
// to go while the pod needs it, and goes. No other test runs meanwhile.
func TestHelm(t *testing.T) {
	h := &helmed{Scene: newScene(t)}
	t.Cleanup(func() {
		_, _ = h.helm("uninstall", "hostpath-provisioner", "--no-hooks") // if the test ended before that
		csiAlone.deploy(t)
		undeployCSI(t)
		redeploy(t)
	})
	csiAlone.deploy(t)
	set := h.uid("daemonset", csiSet)
	claim := csiClaim(h.Scene)
	p := pod{claim: claim.Name, script: "{ while sleep 0.1; do date +%s >>/data/lines; done & }"}.run(h.Scene)
	const name = "localhost/hpp-e2e/chart:v9"
	archive, err := buildImage(t.Context(), name)
	must(h.Scene, "image", err)
	must(h.Scene, "load", local.Load(t.Context(), archive))

	image := []string{"--set=image.repository=" + strings.TrimSuffix(name, ":v9"), "--set=image.tag=v9"}
	if out, err := h.helm(append([]string{"install", "hostpath-provisioner", h.chart()}, image...)...); err == nil {
		t.Errorf("installed over another's objects: %s", out)
	}
	h.must(append([]string{"install", "hostpath-provisioner", h.chart(), "--take-ownership", "--wait", "--timeout=5m"}, image...)...)
	if now := h.uid("daemonset", csiSet); now != set {
		t.Errorf("the DaemonSet has UID %s, before %s", now, set)
	}
	notes := h.must("get", "notes", "hostpath-provisioner")
	if !strings.Contains(notes, "name: hostpath-csi\n") || !strings.Contains(notes, "storagePool: local\n") {
		t.Errorf("the notes have no class: %s", notes)
	}
	h.must(append([]string{"upgrade", "hostpath-provisioner", h.chart(), "--set=reserve=1Mi", "--wait", "--timeout=5m"}, image...)...)
	if env, err := kubectl("", "-n", harness.Namespace, "get", "daemonset", csiSet, "-o", "yaml"); err != nil || !strings.Contains(env, "HPP_RESERVE") {
		t.Errorf("the upgrade changed nothing: %v", err)
	}
	again := csiClaim(h.Scene)
	end(h.Scene, pod{claim: again.Name, script: "echo new >/data/file"}.run(h.Scene))

	out, err := h.helm("uninstall", "hostpath-provisioner", "--timeout=3m")
	if err == nil {
		t.Errorf("uninstalled under a pod: %s", out)
	}
	log, err := kubectl("", "-n", harness.Namespace, "logs", "job/hostpath-provisioner-removal")
	if want := p.Namespace + "/" + p.Name; err != nil || !strings.Contains(log, "form csi stays: pods with CSI volumes cannot end without the agents") || !strings.Contains(log, want) {
		t.Errorf("%q %v does not name pod %s", log, err, want)
	}
	if now, err := kubectl("", "-n", p.Namespace, "get", "pod", p.Name, "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}"); err != nil || now != string(p.UID)+" 0" {
		t.Errorf("the pod is %q, %v", now, err)
	}
	end(h.Scene, p)
	for _, c := range []string{claim.Name, again.Name} {
		volume := h.Bound(claimNamed(h.Scene, c)).Name
		h.Delete(claimNamed(h.Scene, c))
		h.Gone(volume)
	}
	h.must("uninstall", "hostpath-provisioner", "--wait", "--timeout=3m")
	for _, gone := range []string{"daemonset/" + csiSet, "csidriver/" + csiDriver, "job/hostpath-provisioner-removal"} {
		if out, err := kubectl("", "-n", harness.Namespace, "get", gone); err == nil {
			t.Errorf("%s is left: %s", gone, out)
		}
	}
	for _, kept := range []string{"namespace/" + harness.Namespace, "storageclass/" + csiClass} {
		if out, err := kubectl("", "get", kept); err != nil {
			t.Errorf("%s went with the chart: %s", kept, out)
		}
	}
}

// helmed runs Helm on the cluster.
type helmed struct{ *harness.Scene }

// chart is the directory of the chart.
func (h *helmed) chart() string { return filepath.Join(root, "manifests", "chart") }

// helm runs Helm, and returns what it printed.
func (h *helmed) helm(args ...string) (string, error) {
	h.Helper()
	program, err := chart.Helm(h.Context())
	if err != nil {
		return "", err
	}
	cmd := exec.Command(program, append(args, "--namespace="+harness.Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Plane.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h *helmed) must(args ...string) string {
	h.Helper()
	out, err := h.helm(args...)
	if err != nil {
		h.Fatalf("helm %q: %v\n%s", args, err, out)
	}
	return out
}

func (h *helmed) uid(kind, name string) string {
	h.Helper()
	uid, err := kubectl("", "-n", harness.Namespace, "get", kind, name, "-o", "jsonpath={.metadata.uid}")
	must(h.Scene, name, err)
	return uid
}
