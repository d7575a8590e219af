package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/pages"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// reader follows a page, command by command, as an administrator does.
type reader struct {
	*harness.Scene
	page   string
	rest   []pages.Command
	values map[string]string // of placeholders
	set    []string          // commands that set variables
	// replace has what this cluster has in place of what the page names, if it is set.
	replace *strings.Replacer
}

func follow(s *harness.Scene, page string) *reader {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	must(s, "read", err)
	commands, err := pages.Commands(string(text))
	must(s, page, err)
	r := &reader{Scene: s, page: page, rest: commands, values: map[string]string{}}
	if storage != "" {
		r.replace = strings.NewReplacer("../my-storage", storage, "registry.example.com/storage/hostpath-provisioner", chartRepository,
			"newTag: v0.1.0", "newTag: "+chartTag)
	}
	return r
}

// next returns the next command, which must begin with those words.
func (r *reader) next(begins string) pages.Command {
	r.Helper()
	if len(r.rest) == 0 || !strings.HasPrefix(r.rest[0].Text, begins) {
		r.Fatalf("%s: the next command is not %q; the rest of the page is %q", r.page, begins, r.rest)
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// run runs the next command, which must begin with those words, and returns what it printed.
func (r *reader) run(begins string) string {
	r.Helper()
	c := r.next(begins)
	out, err := r.shell(c.Fill(r.values))
	if err != nil {
		r.Fatalf("%s:%d: %v", r.page, c.Line, err)
	}
	if c.Sets() {
		r.set = append(r.set, c.Fill(r.values))
	}
	return out
}

// shell runs a command with the cluster's kubectl at the top of the tree, after those that set
// variables.
func (r *reader) shell(command string) (string, error) {
	script := strings.Join(slices.Concat([]string{"set -eu"}, r.set, []string{command}), "\n")
	if r.replace != nil {
		script, command = r.replace.Replace(script), r.replace.Replace(command)
	}
	cmd := exec.CommandContext(r.Context(), "bash", "-c", script)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Plane.Kubeconfig(), "PATH="+strings.Join([]string{
		filepath.Dir(env.Plane.Binaries().Path("kubectl")), filepath.Dir(pluginProgram()), os.Getenv("PATH")}, ":"))
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", script, err, out.String(), failed.String())
	}
	r.Logf("$ %s\n%s", command, out.String())
	r.pullable(command)
	return out.String(), nil
}

// skip leaves the next command out, and says why.
func (r *reader) skip(begins, why string) {
	r.Helper()
	r.Logf("%s: %s is not run: %s", r.page, r.next(begins).Text, why)
}

// end checks that no command is left.
func (r *reader) end() {
	r.Helper()
	if len(r.rest) > 0 {
		r.Errorf("%s: nothing runs %q", r.page, r.rest)
	}
}

func want(s *harness.Scene, text string, words ...string) {
	s.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			s.Errorf("no %q in\n%s", w, text)
		}
	}
}

// TestPages follows the pages of the documentation: every command of theirs runs, in the page's
// order, with the objects that the page names, and does what the page says. The pages that it does
// not follow are in package pages, with the reason. It is alone, because pages install and
// uninstall.
func TestPages(t *testing.T) {
	pageImages = true
	t.Cleanup(func() {
		pageImages = false
		leaveStorage(t)
		for _, dir := range []string{"policy", "uninstall/csi"} {
			if _, err := kubectl("", "delete", "-k", filepath.Join(root, "manifests", dir), "--ignore-not-found", "--cascade=foreground"); err != nil {
				t.Error(err)
			}
		}
		for _, n := range local.Nodes() {
			if _, err := onNode(n, "rm", "-rf", "/var/hpvolumes/csi"); err != nil {
				t.Error(err)
			}
		}
		redeploy(t)
		// An API server never reads the ConfigMap of a policy again once the last binding was
		// deleted.
		if err := errors.Join(env.Plane.StopAPIServer(), env.Plane.StartAPIServer(context.Background())); err != nil {
			t.Error(err)
		}
	})
	loadChartImage(t)
	for _, page := range []struct {
		name   string
		follow func(*harness.Scene)
	}{{"readme", followReadme}, {"install", followInstall}, {"classes", followStorageClasses}, {"operations", followOperations}, {"troubleshooting", followTroubleshooting},
		{"migration", followMigration}, {"runbooks", followRunbooks}, {"uninstall", followUninstall}} {
		if !t.Run(page.name, func(t *testing.T) { page.follow(newScene(t)) }) {
			return // each page finds what the one before it left
		}
	}
}

// installed is docs/install.md while TestPages is at its last section.
var installed *reader

func followInstall(s *harness.Scene) {
	r := follow(s, "docs/install.md")
	r.skip("make push", "TestPushedImageRuns pushes to a registry")
	r.run("STORAGE=")
	r.run("kubectl apply -k $STORAGE")
	awaitDrivers(s)
	hard := follow(s, "docs/hardening.md")
	hard.run("kubectl apply -k manifests/policy")
	hard.end()
	want(s, r.run("kubectl -n hostpath-provisioner get pods -o wide"), csiSet+"-", one.Name, other.Name)
	want(s, r.run("kubectl get csinodes"), one.Name, other.Name)
	s.Eventually("capacities", func() error { _, err := capacities(s); return err })
	want(s, r.run("kubectl get csistoragecapacities"), one.Name, other.Name, csiClass)
	r.values["POD"] = driverPod(s, one)
	want(s, r.run("kubectl get --raw"), "ready\n", "[+] api ok")
	installed = r
}

func awaitDrivers(s *harness.Scene) {
	s.Helper()
	_, err := kubectl("", "-n", harness.Namespace, "rollout", "status", "daemonset/"+csiSet, "--timeout=180s")
	must(s, "rollout", err)
	for _, n := range local.Nodes() {
		awaitDriver(s, n)
	}
}

func driverPod(s *harness.Scene, n *cluster.Node) string {
	s.Helper()
	return awaitDriver(s, n).Name
}

func followUninstall(s *harness.Scene) {
	r := installed
	r.Scene = s
	r.run("kubectl delete -k manifests/uninstall/csi")
	s.Eventually("no driver pod", func() error {
		if out, err := kubectl("", "-n", harness.Namespace, "get", "pods", "-l", csiLabel, "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("%q, %w", out, err)
		}
		return nil
	})
	r.run("kubectl -n hostpath-provisioner get daemonsets")
	r.skip("kubectl delete namespace", "the namespace has the agents of the other tests; TestUninstall of suite deletes one")
	r.end()
}

// The class becomes the default: a claim that names none gets it.
func followStorageClasses(s *harness.Scene) {
	r := follow(s, "docs/storage-classes.md")
	r.run("kubectl annotate storageclass hostpath-csi")
	s.Cleanup(func() {
		if _, err := kubectl("", "annotate", "storageclass", csiClass, "storageclass.kubernetes.io/is-default-class-"); err != nil {
			s.Error(err)
		}
	})
	claim := s.Create(harness.Claim{Edit: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }})
	if name := claim.Spec.StorageClassName; name == nil || *name != csiClass {
		s.Errorf("the claim's class is %v", name)
	}
	r.end()
	// The table's row about the annotation: the event comes while the claim waits for its pod.
	ignored := s.Create(harness.Claim{Class: csiClass, Node: one.Name})
	s.Eventually("annotation ignored", func() error {
		return said(s, "involvedObject.uid", string(ignored.UID), "AnnotationIgnored", "spec.nodeSelector", ignored.CreationTimestamp.Time)
	})
}

func followTroubleshooting(s *harness.Scene) {
	r := follow(s, "docs/troubleshooting.md")
	want(s, r.run("kubectl get csistoragecapacities"), one.Name, other.Name)
	r.values["POD"] = driverPod(s, one)
	want(s, r.run("kubectl get --raw"), "ready\n")
	r.end()
}

// csiData is a bound CSI claim with a file, and no pod, on the first node.
func csiData(s *harness.Scene) (claim *corev1.PersistentVolumeClaim, pv string) {
	s.Helper()
	claim = s.Create(harness.Claim{Class: csiClass})
	end(s, pod{claim: claim.Name, script: "echo precious >/data/file", hostname: one.Hostname}.run(s))
	return claim, s.Bound(claim).Name
}

func keptFile(volume string) error {
	data, err := os.ReadFile(hostPath(one, "csi", volume, "file"))
	if err == nil && string(data) != "precious\n" {
		err = fmt.Errorf("the file has %q", data)
	}
	return err
}

func isPhase(s *harness.Scene, claim *corev1.PersistentVolumeClaim, want corev1.PersistentVolumeClaimPhase) func() error {
	return func() error {
		if now := s.Read(claim); now.Status.Phase != want {
			return s.NotYet(claim.UID, "it is %s", now.Status.Phase)
		}
		return nil
	}
}

func followOperations(s *harness.Scene) {
	r := follow(s, "docs/operations.md")
	want(s, r.run("kubectl hpp status"), one.Name, other.Name)
	r.values["POD"] = driverPod(s, one)
	want(s, r.run("kubectl -n hostpath-provisioner exec POD"), "pool      local, /var/hpvolumes/csi")
	r.diskGone()
	r.retained()
	r.orphans()
	// A PV with policy Retain whose disk never returns.
	_, r.values["PV"] = csiData(s)
	s.PatchPV(r.values["PV"], `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	r.run("kubectl patch pv PV -p")
	r.end()
	r.removeAll()
}

// diskGone follows "A disk that is gone for good" up to the PV and its claim.
func (r *reader) diskGone() {
	r.Helper()
	claim, pv := csiData(r.Scene)
	r.values["PV"], r.values["NODE"], r.values["POD"] = pv, one.Name, driverPod(r.Scene, one)
	want(r.Scene, r.run("kubectl get pv -l"), pv, inspectIn(r.Scene, awaitDriver(r.Scene, one)).Pool.ID, claim.Name)
	r.run("kubectl delete pv")
	r.run("kubectl patch pv PV -p")
	r.Gone(pv)
	r.Eventually("claim Lost", isPhase(r.Scene, claim, corev1.ClaimLost))
	r.run("kubectl -n hostpath-provisioner delete pod")
	awaitDriver(r.Scene, one)
	r.Delete(claim)
	r.ClaimGone(claim)
	again := r.Create(harness.Claim{Name: claim.Name, Class: csiClass})
	end(r.Scene, pod{claim: again.Name, script: "test ! -e /data/file", hostname: one.Hostname}.run(r.Scene))
}

// retained follows "Retained volumes".
func (r *reader) retained() {
	r.Helper()
	claim, pv := csiData(r.Scene)
	r.PatchPV(pv, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	r.Delete(claim)
	r.Released(pv)
	file := filepath.Join(r.TempDir(), "restored.yaml")
	text := fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: restored}\nspec:\n  storageClassName: %s\n  accessModes: [ReadWriteOnce]\n"+
		"  volumeName: %s\n  resources: {requests: {storage: 1Mi}}\n", csiClass, pv)
	must(r.Scene, "write", os.WriteFile(file, []byte(text), 0o644))
	r.values["PV"], r.values["shop"], r.values["restored.yaml"] = pv, r.Namespace, file
	r.run("kubectl patch pv PV -p")
	r.run("kubectl -n shop apply")
	restored := claimNamed(r.Scene, "restored")
	r.Eventually("bound", isPhase(r.Scene, restored, corev1.ClaimBound))
	want(r.Scene, r.run("kubectl get pv PV"), "Bound")
	r.Eventually("the new owner", func() error {
		v := volumeOf(inspectIn(r.Scene, awaitDriver(r.Scene, one)), pv)
		if v == nil || v.Owner.Name != "restored" {
			return fmt.Errorf("inspect says %+v", v)
		}
		return keptFile(pv)
	})
	r.Delete(restored)
	r.Released(pv)
	r.run("kubectl patch pv PV -p")
	r.Gone(pv)
	if err := harness.Missing(hostPath(one, "csi", pv)); err != nil {
		r.Error(err)
	}
}

// orphans follows "One orphan", with one volume that is brought back, and one that is removed.
func (r *reader) orphans() {
	r.Helper()
	back, first := csiData(r.Scene)
	gone, second := csiData(r.Scene)
	for claim, pv := range map[*corev1.PersistentVolumeClaim]string{back: first, gone: second} {
		r.ForcePVAway(pv)
		r.Delete(claim)
		r.ClaimGone(claim)
	}
	r.values["POD"], r.values["VOLUME"] = driverPod(r.Scene, one), first
	r.values["volume.yaml"] = filepath.Join(r.TempDir(), "volume.yaml")
	list := r.rest[0]
	r.Eventually("both noted", func() error {
		out, err := r.shell(list.Fill(r.values))
		if err == nil && (!strings.Contains(out, first) || !strings.Contains(out, second)) {
			err = errors.New(out)
		}
		return err
	})
	want(r.Scene, r.run("kubectl -n hostpath-provisioner exec POD -- /hostpath-provisioner orphans"), "possible")
	r.run("kubectl -n hostpath-provisioner exec POD -- /hostpath-provisioner orphans show VOLUME >")
	r.run("kubectl apply -f volume.yaml")
	r.Eventually("bound again", isPhase(r.Scene, claimNamed(r.Scene, back.Name), corev1.ClaimBound))
	end(r.Scene, pod{claim: back.Name, script: "grep -q precious /data/file"}.run(r.Scene))
	r.values["VOLUME"] = second
	want(r.Scene, r.run("kubectl -n hostpath-provisioner exec POD -- /hostpath-provisioner orphans remove"), "removed "+second)
	if err := errors.Join(harness.Missing(hostPath(one, "csi", second)), keptFile(first)); err != nil {
		r.Error(err)
	}
}

// removeAll removes what the pages have the reader keep: PVs with policy Retain, and volumes whose
// PV is gone.
func (r *reader) removeAll() {
	r.Helper()
	list, err := r.Client.CoreV1().PersistentVolumes().List(r.Context(), metav1.ListOptions{})
	must(r.Scene, "list PVs", err)
	for _, pv := range list.Items {
		if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == r.Namespace {
			r.PatchPV(pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
		}
	}
}

// followRunbooks runs the commands of the alerts' pages, while nothing is wrong.
func followRunbooks(s *harness.Scene) {
	claim, pv := csiData(s)
	books, err := fs.Glob(os.DirFS(root), pages.Runbooks+"*.md")
	must(s, "list runbooks", err)
	for _, book := range books {
		if pages.Elsewhere[book] != "" {
			continue
		}
		r := follow(s, book)
		r.values = map[string]string{"PV": pv, "POD": driverPod(s, one), "NAMESPACE": s.Namespace, "CLAIM": claim.Name}
		for len(r.rest) > 0 {
			switch text := r.rest[0].Text; {
			case strings.HasSuffix(text, "| grep '^E'"):
				r.skip("kubectl", "nothing is wrong, so grep finds nothing")
				continue
			case text == "kubectl hpp doctor":
				r.skip("kubectl", "it exits with 1, because the pools are on the system's disk: TestPluginDoctor")
				continue
			}
			r.run(r.rest[0].Text)
		}
	}
}
