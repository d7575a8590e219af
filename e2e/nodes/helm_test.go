package nodes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"kubevirt.io/hostpath-provisioner/e2e/chart"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// An administrator follows docs/helm.md: a fresh installation; one by kustomize that the chart takes
// over under a pod that writes, and back; an upgrade; a removal that waits for the pod. No other test
// runs meanwhile.
func TestHelm(t *testing.T) {
	h := &helmed{}
	t.Cleanup(func() { // after the scene's own, which needs agents
		_, _ = h.helm("uninstall", "hostpath-provisioner", "--no-hooks") // if the test ended before that
		csiAlone.deploy(t)
		undeployCSI(t)
		redeploy(t)
	})
	h.Scene = newScene(t)
	r := follow(h.Scene, "docs/helm.md")
	r.replace = strings.NewReplacer("oci://registry.example.com/storage/charts/hostpath-provisioner", h.chart(),
		"--version 0.1.0", "--wait --timeout=5m --set=image.repository="+chartRepository+",image.tag="+chartTag,
		"--version 0.2.0", "--wait --timeout=5m --set=reserve=1Mi",
		"-k $STORAGE", "-k manifests/csi", "--values my-values.yaml", "")
	program, err := chart.Helm(t.Context())
	must(h.Scene, "helm", err)
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	loadChartImage(t)

	takeAgentAway(h.Scene)
	_, err = kubectl("", "delete", "namespace", harness.Namespace, "--timeout=120s")
	must(h.Scene, "delete the namespace", err)
	r.run("kubectl create namespace")
	h.refusedWithoutLabels()
	begin := time.Now()
	r.run("kubectl label namespace")
	r.run("helm install")
	h.installed()
	t.Logf("from the namespace to a pod that has written: %s, with the class and the pod five commands", time.Since(begin).Round(time.Second))
	h.must("uninstall", "hostpath-provisioner", "--wait", "--timeout=3m")
	r.values = map[string]string{"REPOSITORY": chartRepository, "TAG": chartTag}
	r.run("helm install hostpath-provisioner manifests/chart")
	awaitDrivers(h.Scene)
	want(h.Scene, r.run("helm get notes"), "name: "+csiClass)
	want(h.Scene, r.run("kubectl apply -f"), csiClass+" unchanged")
	h.must("uninstall", "hostpath-provisioner", "--wait", "--timeout=3m")

	csiAlone.deploy(t)
	set := h.uid("daemonset", csiSet)
	claim := csiClaim(h.Scene)
	p := pod{claim: claim.Name, hostname: one.Hostname, script: ticking}.run(h.Scene)
	if out, err := h.helm("install", "hostpath-provisioner", h.chart(), "--set=image.repository="+chartRepository); err == nil {
		t.Errorf("installed over another's objects: %s", out)
	}
	r.run("STORAGE=")
	over, install := r.rest[0], r.rest[1]
	r.run("kubectl apply --server-side")
	r.run("helm install hostpath-provisioner")
	same := func(by string) {
		t.Helper()
		if now := h.uid("daemonset", csiSet); now != set {
			t.Errorf("by %s the DaemonSet has UID %s, before %s", by, now, set)
		}
		h.goesOn(p)
	}
	same("Helm")
	r.run("kubectl apply --server-side")
	r.run("kubectl -n hostpath-provisioner delete secrets")
	same("kustomize")
	for _, c := range []string{over.Text, install.Text} {
		_, err := r.shell(c)
		must(h.Scene, "again", err)
	}
	r.run("helm upgrade")
	if env, err := kubectl("", "-n", harness.Namespace, "get", "daemonset", csiSet, "-o", "yaml"); err != nil || !strings.Contains(env, "HPP_RESERVE") {
		t.Errorf("the upgrade changed nothing: %v", err)
	}
	same("the upgrade")
	h.keepsForm(h.Bound(claim).Name)
	same("the upgrade that was refused")
	h.must("rollback", "hostpath-provisioner", "2", "--wait", "--timeout=5m")
	same("the rollback")

	h.staysFor(p)
	same("the removal that was refused")
	end(h.Scene, p)
	volume := h.Bound(claim).Name
	h.Delete(claim)
	h.Gone(volume)
	r.run("helm uninstall")
	r.end()
	h.removed()
}

// installed checks a fresh installation: the notes have the class, and a pod writes.
func (h *helmed) installed() {
	h.Helper()
	notes := h.must("get", "notes", "hostpath-provisioner")
	_, class, found := strings.Cut(notes, "Apply what you need:\n")
	if !found {
		h.Fatalf("the notes have no class: %s", notes)
	}
	_, err := kubectl(class, "apply", "-f", "-")
	must(h.Scene, "apply the class", err)
	claim := csiClaim(h.Scene)
	end(h.Scene, pod{claim: claim.Name, script: "echo new >/data/file"}.run(h.Scene))
	volume := h.Bound(claim).Name
	h.Delete(claim)
	h.Gone(volume)
}

// staysFor checks that the removal is refused while the pod has a volume, and names the pod.
func (h *helmed) staysFor(p *corev1.Pod) {
	h.Helper()
	if out, err := h.helm("uninstall", "hostpath-provisioner", "--timeout=3m"); err == nil {
		h.Errorf("uninstalled under a pod: %s", out)
	}
	log, err := kubectl("", "-n", harness.Namespace, "logs", "job/hostpath-provisioner-removal")
	if want := p.Namespace + "/" + p.Name; err != nil || !strings.Contains(log, "form csi stays: pods with CSI volumes cannot end without the agents") || !strings.Contains(log, want) {
		h.Errorf("%q %v does not name pod %s", log, err, want)
	}
}

// keepsForm checks that an upgrade to a form that does not serve the PV is refused, and names it.
func (h *helmed) keepsForm(pv string) {
	h.Helper()
	if out, err := h.helm("upgrade", "hostpath-provisioner", h.chart(), "--set=form=legacy", "--reuse-values", "--timeout=3m"); err == nil {
		h.Errorf("upgraded to a form without the PV's driver: %s", out)
	}
	log, err := kubectl("", "-n", harness.Namespace, "logs", "job/hostpath-provisioner-upgrade")
	if want := "PV " + pv; err != nil || !strings.Contains(log, "no upgrade to the form legacy: no agent of the form serves "+csiDriver) || !strings.Contains(log, want) {
		h.Errorf("%q %v does not name %s", log, err, want)
	}
	// The revision of that upgrade is the last one: Helm would remove its objects.
	if out, err := h.helm("uninstall", "hostpath-provisioner", "--timeout=3m"); err == nil {
		h.Errorf("uninstalled the form that is not there: %s", out)
	}
	log, err = kubectl("", "-n", harness.Namespace, "logs", "job/hostpath-provisioner-removal")
	if err != nil || !strings.Contains(log, "roll back to the revision") {
		h.Errorf("%q %v", log, err)
	}
}

// removed checks what a removal deletes, and what it leaves.
func (h *helmed) removed() {
	h.Helper()
	for _, gone := range []string{"daemonset/" + csiSet, "csidriver/" + csiDriver, "job/hostpath-provisioner-removal"} {
		if out, err := kubectl("", "-n", harness.Namespace, "get", gone); err == nil {
			h.Errorf("%s is left: %s", gone, out)
		}
	}
	for _, kept := range []string{"namespace/" + harness.Namespace, "storageclass/" + csiClass} {
		if out, err := kubectl("", "get", kept); err != nil {
			h.Errorf("%s went with the chart: %s", kept, out)
		}
	}
}

// refusedWithoutLabels checks that the chart is not installed where the namespace lacks the labels,
// and that it names the command.
func (h *helmed) refusedWithoutLabels() {
	h.Helper()
	label := []string{"label", "--overwrite", "namespace", harness.Namespace}
	const name = "pod-security.kubernetes.io/enforce"
	for _, change := range []string{name + "-", name + "=baseline", name + "-"} { // which takes the level away again
		_, err := kubectl("", append(label, change)...)
		must(h.Scene, "label", err)
		out, err := h.helm("install", "hostpath-provisioner", h.chart(), "--set=image.repository="+chartRepository)
		if err == nil || !strings.Contains(out, "kubectl label --overwrite namespace "+harness.Namespace+" pod-security.kubernetes.io/{enforce,audit,warn}=privileged") {
			h.Errorf("with the label %s: %v\n%s", change, err, out)
		}
	}
}

// The image of the chart, which is that of the tree by another name.
const chartRepository, chartTag = "registry.example.com/hpp-e2e/chart", "v9"

// loadChartImage builds it and puts it onto the nodes.
func loadChartImage(t *testing.T) {
	t.Helper()
	archive, err := buildImage(t.Context(), chartRepository+":"+chartTag)
	if err == nil {
		err = local.Load(t.Context(), archive)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// helmed runs Helm on the cluster.
type helmed struct{ *harness.Scene }

// chart is the directory of the chart.
func (h *helmed) chart() string { return filepath.Join(root, "manifests", "chart") }

// helm runs Helm, and returns what it printed.
func (h *helmed) helm(args ...string) (string, error) {
	h.Helper()
	program, err := chart.Helm(context.Background()) // the test's own may have ended
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
