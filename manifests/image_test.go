package manifests_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// placeholder is the agent's image until a user sets another. Its registry cannot exist: RFC 6761
// keeps the domain invalid out of the DNS.
const placeholder = "registry.invalid/hostpath-provisioner:v0.1.0"

// Each form of the agent takes its image from one entry, and pulls nothing before that is set.
func TestImageIsSetOnce(t *testing.T) {
	images := one[*kustomization](t, "image/kustomization.yaml").Images
	if len(images) != 1 {
		t.Fatalf("%d images, want one", len(images))
	}
	repository, tag, _ := strings.Cut(placeholder, ":")
	if i := images[0]; i.Name != repository || i.NewName != repository || i.NewTag != tag {
		t.Errorf("image %+v, want %s", i, placeholder)
	}
	for _, base := range []string{"legacy", "csi", "operator"} {
		k := one[*kustomization](t, base+"/kustomization.yaml")
		if !slices.Equal(k.Components, []string{"../image"}) || len(k.Images) > 0 {
			t.Errorf("%s: components %v and images %v, want ../image alone", base, k.Components, k.Images)
		}
	}
	for _, at := range append(slices.Clone(csiModes), "legacy", "openshift", "examples/other-path", "examples/legacy-quotas",
		"examples/metrics-auth", "examples/migrate", "local-path", "local-path/k3s", "local-path/kind", "local-path/microk8s") {
		if _, c := agent(t, at); c.Image != placeholder || c.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s: image %s, policy %s; want %s, IfNotPresent", at, c.Image, c.ImagePullPolicy, placeholder)
		}
	}
}

// A kustomization of a user's own sets the images of containers, and nothing else: a variable or an argument with the
// placeholder would keep it.
func TestOnlyContainersNameTheImage(t *testing.T) {
	found := 0
	for _, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !strings.Contains(line, "registry.invalid") || strings.HasPrefix(line, "#") {
				continue
			}
			found++
			if !strings.HasPrefix(strings.TrimPrefix(line, "- "), "image: ") && file != "image/kustomization.yaml" {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d places name the image", found)
	}
}

// A kustomization of a user's is built by the user's kubectl, and that of Kubernetes 1.32 panics at a file with two
// patches that delete.
func TestDeletionsAreAFileEach(t *testing.T) {
	found := 0
	for _, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch deletions := strings.Count("\n"+string(text), "\n$patch: delete"); {
		case deletions > 1:
			t.Errorf("%s deletes %d objects: write a file for each", file, deletions)
		case deletions == 1:
			found++
		}
	}
	if found < 5 {
		t.Errorf("%d files delete an object", found)
	}
}

// What is built without a name is what the manifests run.
func TestMakeBuildsThatImage(t *testing.T) {
	cmd := exec.Command("make", "-s", "-C", "..", "-n", "image")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "IMAGE=") || strings.HasPrefix(v, "MAKE") })
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("cmd/release image "+placeholder+" ")) {
		t.Errorf("make image: %v, %s; want %s to be built", err, out, placeholder)
	}
}

// No manifest runs a program of another project, but for the standard sidecar, and the shell of the
// examples' pods.
func TestImagesAreKnown(t *testing.T) {
	for _, file := range files(t) {
		for _, object := range decode(t, file) {
			var pod corev1.PodSpec
			switch o := object.(type) {
			case *appsv1.DaemonSet:
				pod = o.Spec.Template.Spec
			case *appsv1.Deployment:
				pod = o.Spec.Template.Spec
			case *appsv1.StatefulSet:
				pod = o.Spec.Template.Spec
			case *corev1.Pod:
				pod = o.Spec
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				switch {
				case c.Image == placeholder, strings.HasPrefix(c.Image, "registry.k8s.io/sig-storage/"):
				case c.Image == "" && c.Name == name: // a patch
				case strings.HasPrefix(c.Image, "busybox:") && (strings.HasPrefix(file, "examples/") || strings.HasPrefix(path.Base(file), "test-")):
				default:
					t.Errorf("%s: container %s runs %q", file, c.Name, c.Image)
				}
			}
		}
	}
}
