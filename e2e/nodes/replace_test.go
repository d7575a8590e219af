package nodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The commands of docs/from-kubevirt.md take an older driver's objects away and put ours in their
// place, under a pod that writes. Without them the API server refuses what cannot be changed. What
// only has the name of such an object stays.
func TestReplaceOlder(t *testing.T) {
	commands := pageCommands(t, "docs/from-kubevirt.md", "For CSI volumes:\n", "Classes with other names stay")
	standInImage(t)
	f := csiForm{
		apply: []string{"-f", withoutProvisioner(t, filepath.Join("testdata", "swapin.yaml"))},
		label: "app.kubernetes.io/managed-by=hostpath-provisioner-operator",
	}
	replaced := false
	t.Cleanup(func() {
		if replaced {
			undeployCSI(t)
		} else {
			f.undeploy(t, f.apply[1])
		}
		redeploy(t)
	})
	f.deploy(t)
	s := newScene(t)
	// Drivers of before had other modes of life, or none.
	_, err := kubectl("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: "+csiDriver+"}\n"+
		"spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, volumeLifecycleModes: [Persistent]}\n", "replace", "--force", "-f", "-")
	must(s, "older CSIDriver", err)
	_, err = kubectl("", "apply", "--dry-run=server", "-k", filepath.Join(root, "manifests", "csi"))
	for _, what := range []string{"DaemonSet", "CSIDriver"} {
		if err == nil || !regexp.MustCompile(what+`.*(?:immutable|Invalid)`).MatchString(err.Error()) {
			t.Errorf("without the order, the API server does not refuse the %s: %v", what, err)
		}
	}
	used := older(s, one, "local")
	_, err = kubectl("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: hostpath-provisioner}\nprovisioner: example.com/others\n", "replace", "--force", "-f", "-")
	must(s, "another provisioner's class", err)
	csiClaimOutlives(s, one, used, func() {
		for _, command := range commands {
			runCommand(s, strings.ReplaceAll(command, "$STORAGE", "manifests/csi")) // with the image that is loaded
			replaced = replaced || strings.Contains(command, "apply")
		}
	})
	csiReadme(t, s)
	for _, left := range []string{"clusterrolebinding/hostpath-provisioner-admin-csi", "clusterrole/hostpath-provisioner-admin-csi"} {
		if out, err := kubectl("", "get", left, "--ignore-not-found", "-o", "name"); err != nil || out != "" {
			t.Errorf("the older account keeps %s: %v", left, err)
		}
	}
	_, err = kubectl("", "delete", "storageclass", "hostpath-provisioner")
	must(s, "another provisioner's class", err)
	t.Run("permitted", csiAlone.permitted)
}

// withoutProvisioner writes the manifest without the container csi-provisioner, which this test
// does not need and which takes minutes to build, and returns the file.
func withoutProvisioner(t *testing.T, manifest string) string {
	t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "        - name: csi-provisioner\n")
	_, after, ends := strings.Cut(after, "      volumes:\n")
	file := filepath.Join(t.TempDir(), "older.yaml")
	if err := os.WriteFile(file, []byte(before+"      volumes:\n"+after), 0o644); err != nil || !found || !ends {
		t.Fatalf("%v; %s has no container csi-provisioner", err, manifest)
	}
	return file
}

// csiReadme applies the claim and the pod that README.md shows first, but for the image: there is
// no registry to pull from.
func csiReadme(_ *testing.T, s *harness.Scene) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(s, "read", err)
	block := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: v1\nkind: PersistentVolumeClaim.*?)^```").FindSubmatch(text)
	if block == nil {
		s.Fatal("README.md has no claim")
	}
	_, err = kubectl(publicImage.ReplaceAllString(string(block[1]), "${1}image: "+cluster.BusyboxImage+"\n${1}imagePullPolicy: IfNotPresent"),
		"-n", s.Namespace, "apply", "-f", "-")
	must(s, "apply", err)
	endSoon(s, awaitReady(s, "db"))
	s.Bound(claimNamed(s, "data"))
}

// pageCommands returns the lines of the blocks of commands of a page that lie between two texts.
func pageCommands(t *testing.T, page, from, to string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), from)
	rest, _, ends := strings.Cut(rest, to)
	for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```").FindAllStringSubmatch(rest, -1) {
		commands = append(commands, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	if !found || !ends || len(commands) == 0 {
		t.Fatalf("%s has no commands between %q and %q", page, from, to)
	}
	return commands
}

// runCommand runs a line with the cluster's kubectl, at the top of the tree.
func runCommand(s *harness.Scene, line string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "sh", "-c", line)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Plane.Kubeconfig(), "PATH="+filepath.Dir(env.Plane.Binaries().Path("kubectl"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	must(s, line+": "+string(out), err)
}
