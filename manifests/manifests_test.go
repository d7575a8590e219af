// Package manifests_test keeps the promises that the manifests make in their comments.
package manifests_test

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	name        = "hostpath-provisioner"
	account     = "hostpath-provisioner-admin"
	provisioner = "kubevirt.io/hostpath-provisioner"
	onNode      = "kubevirt.io/provisionOnNode"
)

func TestEveryFileDecodes(t *testing.T) {
	for _, file := range files(t) {
		decode(t, file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte("# ")) {
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
		named := slices.Clone(k.Resources)
		for _, p := range k.Patches {
			named = append(named, p.Path)
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
			if path.Dir(f) == dir && f != file && !slices.Contains(named, path.Base(f)) {
				t.Errorf("%s: does not name %s", file, f)
			}
		}
		for _, l := range k.Labels {
			if l.IncludeSelectors {
				t.Errorf("%s: labels go into selectors, which cannot change on a live DaemonSet", file)
			}
			want := name
			if dir == "csi-sidecars" {
				want = csiName
			}
			if l.Pairs["k8s-app"] != want {
				t.Errorf("%s: label k8s-app is %q, want %q", file, l.Pairs["k8s-app"], want)
			}
		}
	}
}

func TestNamespaceAdmitsTheAgent(t *testing.T) {
	for _, file := range []string{"legacy/namespace.yaml", "csi-sidecars/namespace.yaml"} {
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
	classes := all[*storagev1.StorageClass](t, "legacy/storageclasses.yaml")
	classes = append(classes, one[*storagev1.StorageClass](t, "examples/retain-class.yaml"))
	if len(classes) != len(want) {
		t.Errorf("%d classes, want %d", len(classes), len(want))
	}
	for _, c := range classes {
		if c.Provisioner != provisioner {
			t.Errorf("class %s: provisioner %q, want %q", c.Name, c.Provisioner, provisioner)
		}
		if c.VolumeBindingMode == nil || c.ReclaimPolicy == nil {
			t.Errorf("class %s: binding mode or reclaim policy is left to the default", c.Name)
		} else if got := (class{*c.VolumeBindingMode, *c.ReclaimPolicy}); got != want[c.Name] {
			t.Errorf("class %s: %v, want %v", c.Name, got, want[c.Name])
		}
	}
}

func TestExampleClaimsCanBind(t *testing.T) {
	claims := []*corev1.PersistentVolumeClaim{
		one[*corev1.PersistentVolumeClaim](t, "examples/claim-on-node.yaml"),
		one[*corev1.PersistentVolumeClaim](t, "examples/claim-and-pod.yaml"),
	}
	for _, c := range one[*appsv1.StatefulSet](t, "examples/statefulset.yaml").Spec.VolumeClaimTemplates {
		claims = append(claims, &c)
	}
	modes := map[string]storagev1.VolumeBindingMode{}
	for _, c := range all[*storagev1.StorageClass](t, "legacy/storageclasses.yaml") {
		modes[c.Name] = *c.VolumeBindingMode
	}
	for _, c := range claims {
		if c.Spec.StorageClassName == nil {
			t.Errorf("claim %s: names no class", c.Name)
			continue
		}
		class := *c.Spec.StorageClassName
		mode, ok := modes[class]
		if !ok {
			t.Errorf("claim %s: class %q is not in the base", c.Name, class)
		}
		if node := c.Annotations[onNode]; (mode == storagev1.VolumeBindingImmediate) != (node != "") {
			t.Errorf("claim %s: class %s with %s %q", c.Name, class, onNode, node)
		}
		if !slices.Equal(c.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
			t.Errorf("claim %s: access modes %v, want ReadWriteOnce", c.Name, c.Spec.AccessModes)
		}
	}
}

// The two lists are in two files; admission refuses the pods when they differ.
func TestConstraintsFitTheDaemonSet(t *testing.T) {
	scc := one[*constraints](t, "openshift/scc.yaml")
	c := container(t, "legacy/daemonset.yaml")
	if got, want := scc.AllowedCapabilities, c.SecurityContext.Capabilities.Add; !slices.Equal(got, want) {
		t.Errorf("allowed capabilities %v, the DaemonSet adds %v", got, want)
	}
	if got, want := scc.RequiredDropCapabilities, c.SecurityContext.Capabilities.Drop; !slices.Equal(got, want) {
		t.Errorf("required to drop %v, the DaemonSet drops %v", got, want)
	}
	if len(scc.DefaultAddCapabilities)+len(scc.Groups) != 0 {
		t.Errorf("adds capabilities %v, groups %v; want none", scc.DefaultAddCapabilities, scc.Groups)
	}
	ns := one[*corev1.Namespace](t, "legacy/namespace.yaml").Name
	if want := []string{"system:serviceaccount:" + ns + ":" + account}; !slices.Equal(scc.Users, want) {
		t.Errorf("users %v, want %v", scc.Users, want)
	}
	if !scc.AllowHostDirVolumePlugin || !scc.ReadOnlyRootFilesystem {
		t.Error("host directories have to be allowed, a writable root filesystem not")
	}
	if scc.AllowPrivilegedContainer || scc.AllowPrivilegeEscalation == nil || *scc.AllowPrivilegeEscalation ||
		scc.AllowHostIPC || scc.AllowHostNetwork || scc.AllowHostPID || scc.AllowHostPorts {
		t.Error("allows what the DaemonSet does not ask for")
	}
	for _, s := range []strategy{scc.RunAsUser, scc.SELinuxContext, scc.FSGroup, scc.SupplementalGroups} {
		if s.Type != "RunAsAny" {
			t.Errorf("strategy %q would replace what the pod asks for", s.Type)
		}
	}
	if !slices.Equal(scc.SeccompProfiles, []string{"runtime/default"}) {
		t.Errorf("seccomp profiles %v", scc.SeccompProfiles)
	}
	if got := strings.Join(scc.Volumes, " "); got != "hostPath projected" {
		t.Errorf("volumes %q, want the directory and the token", got)
	}
	patch := one[*appsv1.DaemonSet](t, "openshift/daemonset.yaml")
	if pinned := patch.Spec.Template.Annotations["openshift.io/required-scc"]; pinned != scc.Name {
		t.Errorf("the pods require %q, the constraints are %q", pinned, scc.Name)
	}
}
