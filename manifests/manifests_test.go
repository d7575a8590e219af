// Package manifests_test keeps the promises that the manifests make in their comments.
package manifests_test

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	name        = "hostpath-provisioner"
	account     = "hostpath-provisioner-admin"
	provisioner = "kubevirt.io/hostpath-provisioner"
)

func TestEveryFileDecodes(t *testing.T) {
	for _, file := range files(t) {
		decode(t, file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte("# ")) && !bytes.Contains(data, []byte("controller-gen.kubebuilder.io/version")) {
			t.Errorf("%s: does not begin with a comment that says what it is", file)
		}
	}
}

// A file beside a kustomization that it does not name is never applied, and a name without a file
// fails only on the user's machine.
func TestKustomizationsNameTheirFiles(t *testing.T) {
	for _, file := range files(t) {
		if path.Base(file) != "kustomization.yaml" {
			continue
		}
		k, dir := one[*kustomization](t, file), path.Dir(file)
		named := slices.Concat(k.Resources, k.Components)
		for _, p := range k.Patches {
			if p.Path == "" {
				continue
			}
			named = append(named, p.Path)
			// kubectl 1.30, the oldest that is supported, takes one object a patch.
			if text, err := os.ReadFile(path.Join(dir, p.Path)); err == nil && strings.Contains(string(text), "\n---\n") {
				t.Errorf("%s: the patch %s has several objects; make a file of each", file, p.Path)
			}
		}
		for _, n := range named {
			at := path.Join(dir, n)
			if info, err := os.Stat(at); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if info.IsDir() {
				one[*kustomization](t, path.Join(at, "kustomization.yaml"))
			}
		}
		for _, f := range files(t) {
			byHand := strings.HasPrefix(path.Base(f), "test-") || path.Base(f) == "user-volume.yaml"
			if path.Dir(f) == dir && f != file && !byHand && !slices.Contains(named, path.Base(f)) {
				t.Errorf("%s: does not name %s", file, f)
			}
		}
		for _, l := range k.Labels {
			if l.IncludeSelectors {
				t.Errorf("%s: labels go into selectors, which cannot change on a live DaemonSet", file)
			}
			want := name
			if strings.HasSuffix(dir, "csi") {
				want = csiName
			} else if dir == disksDir {
				want = disksName
			} else if dir == "operator" {
				want = name + "-operator"
			} else if strings.HasPrefix(dir, "local-path/") {
				want = localPathName
			}
			if l.Pairs["k8s-app"] != want {
				t.Errorf("%s: label k8s-app is %q, want %q", file, l.Pairs["k8s-app"], want)
			}
		}
	}
}

func TestNamespaceAdmitsTheAgent(t *testing.T) {
	for _, file := range []string{"legacy/namespace.yaml", "csi/namespace.yaml", "operator/namespace.yaml", "local-path/agent/namespace.yaml"} {
		ns := one[*corev1.Namespace](t, file)
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if level := ns.Labels["pod-security.kubernetes.io/"+mode]; level != "privileged" || ns.Name != name {
				t.Errorf("%s: %s is %q; hostPath volumes need privileged", file, mode, level)
			}
		}
	}
}

func TestClassesNameTheProvisioner(t *testing.T) {
	type class struct {
		mode   storagev1.VolumeBindingMode
		policy corev1.PersistentVolumeReclaimPolicy
	}
	want := map[string]class{
		name:                {storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete},
		name + "-immediate": {storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete},
		name + "-retain":    {storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain},
	}
	classes := all[*storagev1.StorageClass](t, "legacy")
	classes = append(classes, one[*storagev1.StorageClass](t, "examples/retain-class.yaml"))
	if len(classes) != len(want) {
		t.Errorf("%d classes, want %d", len(classes), len(want))
	}
	for _, c := range classes {
		if c.Provisioner != provisioner {
			t.Errorf("class %s: provisioner %q, want %q", c.Name, c.Provisioner, provisioner)
		}
		if c.AllowVolumeExpansion == nil || !*c.AllowVolumeExpansion {
			t.Errorf("class %s: its claims cannot ask for more", c.Name)
		}
		if c.VolumeBindingMode == nil || c.ReclaimPolicy == nil {
			t.Errorf("class %s: binding mode or reclaim policy is left to the default", c.Name)
		} else if got := (class{*c.VolumeBindingMode, *c.ReclaimPolicy}); got != want[c.Name] {
			t.Errorf("class %s: %v, want %v", c.Name, got, want[c.Name])
		}
	}
}
