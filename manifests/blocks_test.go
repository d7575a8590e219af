package manifests_test

import (
	"maps"
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// The commands of docs/install.md and docs/helm.md are run by TestPages and TestHelm of e2e/nodes.
// These are their other blocks.
func TestBlocksOfInstall(t *testing.T) {
	text := page(t, "docs/install.md")
	image := one[*kustomization](t, "image/kustomization.yaml").Images[0]
	all := blocks(text, "yaml")
	if len(all) != 4 {
		t.Fatalf("%d blocks", len(all))
	}
	var k kustomization
	if err := yaml.UnmarshalStrict([]byte(all[0]), &k); err != nil || len(k.Images) != 1 || k.Images[0].Name != image.Name {
		t.Errorf("%v: the block sets another image than %s:\n%s", err, image.Name, all[0])
	}
	for _, r := range k.Resources {
		_, dir, _ := strings.Cut(r, "//manifests/")
		if dir, _, _ = strings.Cut(dir, "?ref="); len(render(t, dir)) == 0 {
			t.Errorf("%s names no form", r)
		}
	}
	// The Secret of a registry.
	k = kustomization{}
	if err := yaml.UnmarshalStrict([]byte(all[1]), &k); err != nil || len(k.Patches) != 1 {
		t.Errorf("%v: %+v", err, k)
	}
	// A variable of the agents, whose container is the first one in each form.
	k = kustomization{}
	if err := yaml.UnmarshalStrict([]byte(all[2]), &k); err != nil || len(k.Patches) != 1 || !strings.Contains(all[2], "/containers/0/env/-") {
		t.Errorf("%v: %+v", err, k)
	}
	for _, form := range []string{"legacy", "csi", "csi-sidecars", "single-node"} {
		for id, o := range rendered(t, form) {
			set, is := o.(*appsv1.DaemonSet)
			if is && (set.Spec.Template.Spec.Containers[0].Name != "hostpath-provisioner" || len(set.Spec.Template.Spec.Containers[0].Env) == 0) {
				t.Errorf("%s: %s: the first container is not the agent with its variables", form, id)
			}
		}
	}
	// What deletes an overlay of a user's own, in a directory beside it and beside the checkout.
	k = kustomization{}
	if err := yaml.UnmarshalStrict([]byte(all[3]), &k); err != nil || len(k.Resources) != 1 || len(k.Components) != 1 {
		t.Fatalf("%v: %+v", err, k)
	}
	component := path.Clean(strings.TrimPrefix(k.Components[0], "../hostpath-provisioner/manifests/"))
	left := set{}
	for _, o := range accumulate(t, render(t, "examples/own-disk"), component) {
		left[identity(t, o)] = o
	}
	if want := rendered(t, "uninstall/csi"); !maps.EqualFunc(left, want, func(any, any) bool { return true }) {
		t.Errorf("it deletes %v, want %v", left, want)
	}
}

func TestBlocksOfSELinux(t *testing.T) {
	_, text, found := strings.Cut(page(t, "docs/hardening.md"), "\n    spec:\n")
	if !found {
		t.Fatal("docs/hardening.md sets no categories")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte("spec:\n"+strings.ReplaceAll("\n"+text, "\n    ", "\n")), &pod); err != nil || pod.Spec.SecurityContext.SELinuxOptions.Level == "" {
		t.Errorf("%v: %+v", err, pod.Spec.SecurityContext)
	}
}

func TestBlocksOfHelm(t *testing.T) {
	_, block, found := strings.Cut(page(t, "docs/helm.md"), "kubectl apply -f - <<'EOF'\n")
	block, _, ends := strings.Cut(block, "\nEOF\n")
	if !found || !ends {
		t.Fatal("docs/helm.md applies no class")
	}
	var class storagev1.StorageClass
	if err := yaml.UnmarshalStrict([]byte(block), &class); err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, plain(t, asJSON(t, &class))), text(t, plain(t, asJSON(t, one[*storagev1.StorageClass](t, "csi")))); got != want {
		t.Errorf("the class is\n%s\nand in manifests/csi\n%s", got, want)
	}
}
