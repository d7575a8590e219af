package manifests_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the blocks of code in the language.
func blocks(text, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// A reader installs what comes first, copies the first claim and its pod, and the claim binds.
func TestReadmeClaimBindsAfterItsInstallation(t *testing.T) {
	text := page(t, "README.md")
	installed := regexp.MustCompile(`(?m)^resources: \[.*/manifests/(\S+)\]$`).FindStringSubmatch(text)
	if installed == nil {
		t.Fatal("no form is named")
	}
	var claim corev1.PersistentVolumeClaim
	var pod corev1.Pod
	for _, block := range blocks(text, "yaml") {
		if !strings.Contains(block, "kind: PersistentVolumeClaim") {
			continue
		}
		documents := bytes.Split([]byte(block), []byte("\n---\n"))
		if len(documents) != 2 {
			t.Fatalf("%d documents, want a claim and its pod", len(documents))
		}
		for i, object := range []any{&claim, &pod} {
			if err := yaml.UnmarshalStrict(documents[i], object); err != nil {
				t.Fatal(err)
			}
		}
		break
	}
	if claim.Spec.StorageClassName == nil || len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != claim.Name {
		t.Fatalf("claim %+v, pod %+v", claim, pod)
	}
	for _, c := range all[*storagev1.StorageClass](t, path.Clean(installed[1])) {
		if c.Name == *claim.Spec.StorageClassName {
			return
		}
	}
	t.Errorf("the claim's class is %s, which manifests/%s does not have", *claim.Spec.StorageClassName, installed[1])
}

// The page about sidecars says of each sidecar of the older manifests whether it stays.
func TestInstallKnowsTheSidecars(t *testing.T) {
	text := page(t, "docs/sidecars.md")
	for _, sidecar := range []string{"csi-provisioner", "node-driver-registrar", "livenessprobe",
		"csi-external-health-monitor-controller", "csi-snapshotter", "csi-resizer", "csi-attacher"} {
		if row := regexp.MustCompile("(?m)^\\| `" + sidecar + "` \\| (?:required|optional|remove it)"); !row.MatchString(text) {
			t.Errorf("docs/sidecars.md does not say whether %s stays", sidecar)
		}
	}
}

// The page counts the capabilities of the form's DaemonSet.
func TestInstallCountsCapabilities(t *testing.T) {
	count := len(one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml").Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add)
	words := []string{"no", "one", "two", "three", "four", "five", "six"}
	if want := "root with " + words[count] + " capabilities;"; !strings.Contains(page(t, "docs/install.md"), want) {
		t.Errorf("docs/install.md does not say %q", want)
	}
}

// The entry that the page about installation shows is the one of the manifests.
func TestInstallSetsTheImage(t *testing.T) {
	text := page(t, "docs/install.md")
	push := strings.Index(text, "    make push IMAGE=registry.example.com/")
	apply := strings.Index(text, "\nkubectl apply -k $STORAGE\n")
	if push < 0 || push > apply {
		t.Error("the image is not pushed before the first form is applied")
	}
	for _, block := range blocks(text, "yaml") {
		var k kustomization
		if strings.Contains(block, "\nimages:") {
			if err := yaml.UnmarshalStrict([]byte(block), &k); err != nil || len(k.Images) != 1 {
				t.Fatalf("%v: %s", err, block)
			}
			if repository, _, _ := strings.Cut(placeholder, ":"); k.Images[0].Name != repository {
				t.Errorf("it sets %s, the manifests name %s", k.Images[0].Name, repository)
			}
			return
		}
	}
	t.Error("no block sets the image")
}

// The kustomization that the README has people write, beside their checkout, sets the image that
// was pushed.
func TestReadmeSetsTheImage(t *testing.T) {
	commands := regexp.MustCompile(`(?ms)^STORAGE=(\S+)\nmake push IMAGE=(\S+):(\S+)\n(mkdir .*?\nEND)\nkubectl apply -k \$STORAGE$`).FindStringSubmatch(page(t, "README.md"))
	if commands == nil {
		t.Fatal("the README does not push an image, write a kustomization and apply it")
	}
	checkout := filepath.Join(t.TempDir(), "checkout")
	manifests, err := filepath.Abs(".")
	if err == nil {
		err = errors.Join(os.Mkdir(checkout, 0o755), os.Symlink(manifests, filepath.Join(checkout, "manifests")))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", "STORAGE="+commands[1]+"\n"+commands[4])
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	written := filepath.Join(checkout, commands[1], "kustomization.yaml")
	text, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	var k kustomization
	if err := yaml.UnmarshalStrict(text, &k); err != nil || len(k.Images) != 1 || len(k.Resources) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if got := k.Images[0]; got.Name+":"+got.NewTag != placeholder || got.NewName != commands[2] || got.NewTag != commands[3] {
		t.Errorf("it sets %+v, and %s:%s was pushed for %s", got, commands[2], commands[3], placeholder)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(written), k.Resources[0], "kustomization.yaml")); err != nil {
		t.Errorf("it names a form that is not there: %v", err)
	}
}
