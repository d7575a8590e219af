package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// adoption is a form that kustomize installed and that Helm takes over.
type adoption struct {
	form, manifests string   // of the chart; the directory of the kustomization
	values          string   // of the chart
	change          []string // pairs for strings.NewReplacer, for the nodes of this cluster
	// before prepares the cluster for the form, and may change the adoption.
	before func(*adoption, *testing.T, *helmed)
	claims []harness.Claim
	// claim makes the claim of a form that has no class for it, in place of claims.
	claim  func(*helmed) *corev1.PersistentVolumeClaim
	gone   func() // waits until the claim's volume is free
	remove func(*testing.T)
}

// adoptions are the forms without csi, which TestHelm takes over. Each leaves the cluster with the
// agent of the other tests.
func adoptions() []*adoption {
	return []*adoption{
		{form: "legacy", manifests: "legacy", values: "form: legacy", claims: []harness.Claim{{Node: one.Name}}},
		{form: "both", manifests: "examples/both-modes", values: "form: both",
			before: func(_ *adoption, _ *testing.T, h *helmed) { takeAgentAway(h.Scene) },
			claims: []harness.Claim{{Node: one.Name}, {Class: csiClass}}, remove: undeployCSI},
		{form: "local-path", manifests: "local-path", change: []string{"/opt/local-path-provisioner", localPathBase},
			values: "form: local-path\npvDir: " + localPathBase + "\nlocalPathConfig: |-\n" + localPathConfig,
			claims: []harness.Claim{{Class: localPathClass}}, remove: func(t *testing.T) { adoptedAway(t, "local-path", "local-path") }},
		{form: "single-node", manifests: "single-node", change: []string{"/var/kubernetes", singleNodeBase, nodeSelector, nodeSelector + onlyOne()},
			values: "form: single-node\npvDir: " + singleNodeBase + "\nnodeSelector:\n" + onlyOne(),
			before: func(_ *adoption, _ *testing.T, h *helmed) {
				takeAgentAway(h.Scene)
				cordon(h.Scene, other, true)
			},
			claims: []harness.Claim{{Class: singleNodeClass}},
			remove: func(t *testing.T) {
				cordon(&harness.Scene{TB: t, Env: env}, other, false)
				adoptedAway(t, "single-node", "single-node")
			}},
		{form: "operator", manifests: "operator", values: "form: operator",
			before: func(_ *adoption, _ *testing.T, h *helmed) {
				takeAgentAway(h.Scene)
				operatorDefined(h.Scene)
				_, err := kubectl(operatorResource+operatorClass, "apply", "-f", "-")
				must(h.Scene, "apply the resource", err)
			},
			claims: []harness.Claim{{Node: one.Name}, {Class: csiClass}},
			remove: func(t *testing.T) { operatorAway(t, "uninstall/operator") }},
		{form: "disks", manifests: "local-pv", before: adoptDisks},
	}
}

const (
	nodeSelector    = "        kubernetes.io/os: linux\n"
	localPathConfig = `  {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["` + localPathBase + `"]}]}`
	operatorClass   = `---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hostpath-csi}
provisioner: kubevirt.io.hostpath-provisioner
volumeBindingMode: WaitForFirstConsumer
parameters: {storagePool: legacy}
`
)

func onlyOne() string { return "        kubernetes.io/hostname: " + one.Hostname + "\n" }

// adoptDisks gives the first node a disk with a filesystem. The ConfigMaps are those of the test.
func adoptDisks(a *adoption, t *testing.T, h *helmed) {
	devices := deployDisks(t)
	annotateNode(t, one, "local-pv-ext4")
	text, err := kubectl("", "-n", harness.Namespace, "get", "configmaps", "local-pv-ext4", "-o", "jsonpath={.data}")
	must(h.Scene, "read the ConfigMap", err)
	a.values = "form: none\ndisks: {enabled: true, configMaps: {local-pv-ext4: " + text + "}}"
	disks := &rawDisks{Scene: h.Scene, dir: filepath.Join(devices, "filesystem")}
	a.claim = func(h *helmed) *corev1.PersistentVolumeClaim {
		path := disks.link(h.Loop(diskMiB), "filesystem-adopted")
		pv := disks.offered(one, path, "")
		a.gone = func() { disks.offered(one, path, pv.UID) }
		return disks.claimFor("adopted", pv)
	}
}

// adoptedAway removes a form of this test, and its volumes.
func adoptedAway(t *testing.T, form, volumes string) {
	t.Helper()
	if _, err := kubectl("", "delete", "-k", filepath.Join(root, "manifests", "uninstall", form), "--ignore-not-found", "--cascade=foreground"); err != nil {
		t.Error(err)
	}
	for _, n := range local.Nodes() {
		if err := os.RemoveAll(filepath.Join(n.VolumesDir(), volumes)); err != nil {
			t.Error(err)
		}
	}
}

// Helm takes each form over from kustomize under pods that write, and kustomize takes it back: the
// workloads stay the same, and the pods' containers go on. No other test runs meanwhile.
func TestHelmTakesOver(t *testing.T) {
	for _, a := range adoptions() {
		t.Run(a.form, a.run)
	}
}

func (a *adoption) run(t *testing.T) {
	h := &helmed{}
	t.Cleanup(func() { // after the scene's own, which needs agents
		h.forget()
		if a.remove != nil {
			a.remove(t)
		}
		redeploy(t)
	})
	h.Scene = newScene(t)
	if a.before != nil {
		a.before(a, t, h)
	}
	dir := a.overlay(h)
	h.apply(dir)
	users := map[*corev1.PersistentVolumeClaim]*corev1.Pod{}
	if a.claim != nil {
		claim := a.claim(h)
		users[claim] = pod{claim: claim.Name, hostname: one.Hostname, script: ticking}.run(h.Scene)
	}
	for _, c := range a.claims {
		claim := h.Create(c)
		users[claim] = pod{claim: claim.Name, hostname: one.Hostname, script: ticking}.run(h.Scene)
	}
	before := h.workloads()
	stays := func(by string) {
		t.Helper()
		if now := h.workloads(); !slices.Equal(before, now) {
			t.Errorf("by %s the workloads are %q, before %q", by, now, before)
		}
		for _, p := range users {
			h.goesOn(p)
		}
	}

	values := filepath.Join(t.TempDir(), "values.yaml")
	must(h.Scene, "write values", os.WriteFile(values, []byte(a.values), 0o644))
	loadChartImage(t) // late: a kubelet whose disk is almost full removes images that nothing runs
	h.handOver(dir)
	h.must("install", "hostpath-provisioner", h.chart(), "--take-ownership", "--wait", "--timeout=5m", "--values="+values,
		"--set=image.repository="+chartRepository, "--set=image.tag="+chartTag)
	if a.form == "operator" { // which then replaces the agents
		h.Eventually("agents of the chart's image", func() error { return h.runs(csiSet) })
		operatorComplete(h.Scene)
	}
	stays("Helm")
	managers, err := kubectl("", "-n", harness.Namespace, "get", "daemonsets,deployments", "-l", "app.kubernetes.io/managed-by=Helm",
		"--show-managed-fields", "-o", "jsonpath={.items[*].metadata.managedFields[*].manager}")
	if err != nil || !strings.Contains(managers, "helm") || strings.Contains(managers, "kubectl") {
		t.Errorf("fields belong to %q: a later upgrade could not remove those of kubectl; %v", managers, err)
	}
	h.handOver(dir)
	h.forget()
	stays("kustomize")
	for claim, p := range users {
		end(h.Scene, p)
		h.Delete(claim)
		if a.gone != nil {
			a.gone()
			continue
		}
		h.Gone(harness.PVName(claim))
	}
}

// runs returns nil if all pods of a DaemonSet run the chart's image.
func (h *helmed) runs(set string) error {
	for _, n := range local.Nodes() {
		p, err := podOf(h.Scene, n, set)
		if err == nil && (!strings.Contains(p.Spec.Containers[0].Image, chartRepository) || !isReady(p)) {
			err = fmt.Errorf("%s has the image %s, ready: %v", p.Name, p.Spec.Containers[0].Image, isReady(p))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overlay writes a kustomization as a user has one, with the objects of the form for this cluster.
func (a *adoption) overlay(h *helmed) (dir string) {
	h.Helper()
	text, err := kubectl("", "kustomize", filepath.Join(root, "manifests", a.manifests))
	must(h.Scene, "render", err)
	text = notDefault(strings.NewReplacer(a.change...).Replace(text))
	if a.form == "disks" { // their ConfigMaps are there, and those of the test
		text = strings.Join(slices.DeleteFunc(strings.Split(text, "\n---\n"), func(o string) bool { return strings.Contains(o, "kind: ConfigMap\n") }), "\n---\n")
	}
	dir = h.TempDir()
	must(h.Scene, "write", os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o644))
	must(h.Scene, "write", os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [all.yaml]\n"), 0o644))
	return dir
}

// apply installs an overlay and waits for its workloads.
func (h *helmed) apply(dir string) {
	h.Helper()
	_, err := kubectl("", "apply", "-k", dir)
	must(h.Scene, "apply", err)
	for _, w := range h.workloads() {
		name, _, _ := strings.Cut(w, " ")
		_, err := kubectl("", "-n", harness.Namespace, "rollout", "status", name, "--timeout=180s")
		must(h.Scene, name, err)
	}
}

// handOver has the fields of an overlay's objects belong to Helm, or takes them back from it:
// docs/helm.md.
func (h *helmed) handOver(dir string) {
	h.Helper()
	_, err := kubectl("", "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-k", dir)
	must(h.Scene, "hand over", err)
}

// forget removes what Helm knows of its release.
func (h *helmed) forget() {
	if _, err := kubectl("", "-n", harness.Namespace, "delete", "secrets", "-l", "owner=helm,name=hostpath-provisioner"); err != nil {
		h.Error(err)
	}
}

// workloads are the DaemonSets and Deployments of the namespace, with their UIDs.
func (h *helmed) workloads() []string {
	h.Helper()
	text, err := kubectl("", "-n", harness.Namespace, "get", "daemonsets,deployments",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{"\n"}{end}`)
	must(h.Scene, "list workloads", err)
	return strings.Split(strings.TrimSpace(text), "\n")
}

// goesOn checks that the pod's container is that of before, and that it writes.
func (h *helmed) goesOn(p *corev1.Pod) {
	h.Helper()
	now, err := h.Client.CoreV1().Pods(p.Namespace).Get(h.Context(), p.Name, metav1.GetOptions{})
	must(h.Scene, "read pod", err)
	if was, is := p.Status.ContainerStatuses[0], now.Status.ContainerStatuses[0]; was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		h.Errorf("%s has container %s, before it was %s; %d restarts", p.Name, is.ContainerID, was.ContainerID, is.RestartCount)
	}
	_, err = kubectl("", "-n", p.Namespace, "exec", p.Name, "--", "rm", "/data/clock")
	must(h.Scene, "remove what it wrote", err)
	h.Eventually(fmt.Sprintf("%s writes", p.Name), func() error {
		_, err := kubectl("", "-n", p.Namespace, "exec", p.Name, "--", "test", "-s", "/data/clock")
		return err
	})
}
