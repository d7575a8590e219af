package manifests_test

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

const (
	csiName    = "hostpath-provisioner-csi"
	csiAccount = "hostpath-provisioner-admin-csi"
	csiDriver  = "kubevirt.io.hostpath-provisioner"
	csiClass   = "hostpath-csi"
	kubelet    = "/var/lib/kubelet"
	sidecars   = "csi-sidecars"
)

// csiModes are the deployments that serve CSI claims.
var csiModes = []string{"csi", sidecars, "openshift-csi", "examples/both-modes", "examples/two-pools", "examples/own-disk", otherKubelet,
	"distributions/k3s", "distributions/k0s", "distributions/microk8s", "distributions/kind", talos}

const (
	otherKubelet = "examples/kubelet-dir"
	talos        = "distributions/talos"
)

// kubeletOf returns the directory of the kubelet that a deployment is for.
func kubeletOf(at string) string {
	switch at {
	case otherKubelet, "distributions/k0s": // https://docs.k0sproject.io/stable/directories
		return "/var/lib/k0s/kubelet"
	case "distributions/microk8s":
		return "/var/snap/microk8s/common/var/lib/kubelet"
	}
	return kubelet
}

// arguments are a container's, by flag; one without a value is "true".
func arguments(t *testing.T, c corev1.Container) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, arg := range c.Args {
		flag, value, given := strings.Cut(arg, "=")
		if !given {
			value = "true"
		}
		if _, twice := got[flag]; twice {
			t.Errorf("%s has %s twice", c.Name, flag)
		}
		got[flag] = value
	}
	return got
}

func mountAt(c corev1.Container, at string) corev1.VolumeMount {
	for _, m := range c.VolumeMounts {
		if m.MountPath == at {
			return m
		}
	}
	return corev1.VolumeMount{}
}

// hostOf is where the host has a path of the container.
func hostOf(pod corev1.PodSpec, c corev1.Container, at string) string {
	for _, v := range pod.Volumes {
		if v.Name == mountAt(c, at).Name {
			return v.HostPath.Path
		}
	}
	return ""
}

// pools are the paths of the CSI pools by their names.
func pools(t *testing.T, at string) map[string]string {
	t.Helper()
	_, c := agent(t, at)
	var list []struct{ Name, Path string }
	if err := json.Unmarshal([]byte(environment(c)["DATADIR"]), &list); err != nil || len(list) == 0 {
		t.Fatalf("%s: DATADIR: %v, %v", at, list, err)
	}
	paths := map[string]string{}
	for _, p := range list {
		paths[p.Name] = p.Path
	}
	return paths
}

func TestCSISelector(t *testing.T) {
	want := map[string]string{"k8s-app": csiName}
	for _, at := range csiModes {
		ds := one[*appsv1.DaemonSet](t, at)
		if ds.Name != csiName || ds.Namespace != name || len(ds.Spec.Selector.MatchExpressions) != 0 ||
			!maps.Equal(ds.Spec.Selector.MatchLabels, want) || !maps.Equal(ds.Spec.Template.Labels, want) {
			t.Errorf("%s: DaemonSet %s selects %v of %v, want %v", at, ds.Name, ds.Spec.Selector, ds.Spec.Template.Labels, want)
		}
	}
	if maps.Equal(one[*appsv1.DaemonSet](t, "legacy").Spec.Selector.MatchLabels, want) {
		t.Error("the selector is that of the other DaemonSet, and both may be in one namespace")
	}
}

// Applied over one another, the deployments have to be the same objects: what has another name
// would stay behind, and what is immutable would be refused.
func TestCSISwitchesInPlace(t *testing.T) {
	for _, at := range csiModes {
		have := map[string]any{}
		for _, object := range render(t, at) {
			have[identity(t, object)] = object
		}
		for _, object := range render(t, "csi") {
			id := identity(t, object)
			got, ok := have[id]
			delete(have, id)
			if !ok {
				t.Errorf("%s: has no %s", at, id)
			}
			switch object.(type) {
			case *appsv1.DaemonSet, *rbacv1.ClusterRole, *rbacv1.Role, *corev1.Namespace:
				// These can be changed; what is in them has tests of its own.
			default:
				if class, ok := got.(*storagev1.StorageClass); ok {
					class.AllowVolumeExpansion = object.(*storagev1.StorageClass).AllowVolumeExpansion // so can this
				}
				if !apiequality.Semantic.DeepEqual(got, object) {
					t.Errorf("%s: %s is %+v, want that of csi, %+v", at, id, got, object)
				}
			}
		}
		// Classes keep what was made with them; constraints without pods do nothing.
		for id := range have {
			if kind, _, _ := strings.Cut(id, " "); kind != "StorageClass" && kind != "SecurityContextConstraints" {
				t.Errorf("%s: %s is not in csi, and would stay behind", at, id)
			}
		}
	}
}

// The command lines are those of the base but for what each mode is for.
func TestCSIArguments(t *testing.T) {
	for _, at := range csiModes {
		want := map[string]string{
			"--drivername": csiDriver, "--endpoint": "unix:///csi/csi.sock",
			"--kubelet-registration-path": kubeletOf(at) + "/plugins/csi-hostpath/csi.sock", "--kubelet-dir": kubeletOf(at),
		}
		if at == sidecars {
			want["--http-address"] = ":9898"
		}
		_, c := agent(t, at)
		if got := arguments(t, c); !maps.Equal(got, want) || len(c.Command) != 0 {
			t.Errorf("%s: arguments %v, want %v", at, got, want)
		}
	}
}

func TestCSIEnvironment(t *testing.T) {
	for _, at := range csiModes {
		want := map[string]string{
			"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace",
			"PROVISION": "csi", "DATADIR": `[{"name":"local","path":"/var/hpvolumes/csi"}]`,
		}
		switch at {
		case sidecars:
			want["PROVISION"] = ""
		case "examples/both-modes":
			_, legacy := agent(t, "legacy")
			maps.Copy(want, environment(legacy))
			want["PROVISION"] = "hostpath,csi"
		case "examples/two-pools":
			want["DATADIR"] = `[{"name":"local","path":"/var/hpvolumes/csi"},{"name":"fast","path":"/mnt/fast/csi"}]`
		case talos:
			want["DATADIR"] = `[{"name":"local","path":"/var/mnt/hostpath-provisioner/csi","mount":"/var/mnt/hostpath-provisioner"}]`
		case "examples/own-disk":
			want["DATADIR"] = `[{"name":"local","path":"/var/hpvolumes/disk/csi","mount":"/var/hpvolumes/disk"}]`
		}
		_, c := agent(t, at)
		if got := environment(c); !maps.Equal(got, want) {
			t.Errorf("%s: environment %v, want %v", at, got, want)
		}
	}
}

// The agent and the kubelet have to mean the same socket and the same directories.
func TestCSISocketIsOneAndTheSame(t *testing.T) {
	for _, at := range csiModes {
		pod, c := agent(t, at)
		kubelet := kubeletOf(at)
		args := arguments(t, c)
		endpoint := strings.TrimPrefix(args["--endpoint"], "unix://")
		onHost := path.Join(hostOf(pod, c, path.Dir(endpoint)), path.Base(endpoint))
		if got := args["--kubelet-registration-path"]; got != onHost || onHost != kubelet+"/plugins/csi-hostpath/csi.sock" {
			t.Errorf("%s: the socket is %s on the host, the kubelet is told %s", at, onHost, got)
		}
		if got := hostOf(pod, c, kubelet+"/plugins_registry"); got != kubelet+"/plugins_registry" {
			t.Errorf("%s: registers in %q", at, got)
		}
		if got := args["--kubelet-dir"]; got != kubelet || hostOf(pod, c, got+"/pods") != got+"/pods" {
			t.Errorf("%s: the kubelet's directory is %s, the pods' is %q", at, got, hostOf(pod, c, got+"/pods"))
		}
	}
}

func TestCSIPoolsLieInVolumes(t *testing.T) {
	for _, at := range csiModes {
		pod, c := agent(t, at)
		all, named := pools(t, at), map[string]bool{}
		for pool, dir := range all {
			m := mountAt(c, path.Dir(dir))
			if at == "examples/own-disk" || at == talos { // the disk is mounted in between
				m = mountAt(c, path.Dir(path.Dir(dir)))
			}
			if m.ReadOnly || m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer ||
				hostOf(pod, c, m.MountPath) != m.MountPath {
				t.Errorf("%s: pool %s at %s: mounted by %+v", at, pool, dir, m)
			}
		}
		for _, class := range classesOf(t, at) {
			pool := class.Parameters["storagePool"]
			if all[pool] == "" || named[pool] || len(class.Parameters) != 1 {
				t.Errorf("%s: class %s has %v, the pools are %v", at, class.Name, class.Parameters, all)
			}
			named[pool] = true
			if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
				class.ReclaimPolicy == nil || *class.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
				t.Errorf("%s: class %+v", at, class)
			}
			// Beside a sidecar nobody grows volumes.
			if grows := class.AllowVolumeExpansion; grows == nil || *grows != (at != sidecars) {
				t.Errorf("%s: class %s: allowVolumeExpansion is wrong", at, class.Name)
			}
		}
		if len(named) != len(all) {
			t.Errorf("%s: classes for %v, the pools are %v", at, named, all)
		}
	}
	retain := one[*storagev1.StorageClass](t, "examples/csi-retain-class.yaml")
	if plain := classesOf(t, "csi")[0]; retain.Name == plain.Name || *retain.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		retain.Provisioner != plain.Provisioner || *retain.VolumeBindingMode != *plain.VolumeBindingMode || !*retain.AllowVolumeExpansion ||
		retain.Parameters["storagePool"] != plain.Parameters["storagePool"] {
		t.Errorf("the example of a class with policy Retain is %+v, which is not that of the form but for its name and policy", retain)
	}
	if c := classesOf(t, "csi"); len(c) != 1 || c[0].Name != csiClass || c[0].Parameters["storagePool"] != "local" {
		t.Errorf("classes %v, want %s", c, csiClass)
	}
}

// classesOf are the deployment's classes of the CSI driver. The others have to be those of legacy.
func classesOf(t *testing.T, at string) (ours []*storagev1.StorageClass) {
	t.Helper()
	var legacy []*storagev1.StorageClass
	for _, class := range all[*storagev1.StorageClass](t, at) {
		if class.Provisioner == csiDriver {
			ours = append(ours, class)
		} else {
			legacy = append(legacy, class)
		}
	}
	if want := all[*storagev1.StorageClass](t, "legacy"); (legacy != nil) != (at == "examples/both-modes") ||
		legacy != nil && !apiequality.Semantic.DeepEqual(legacy, want) {
		t.Errorf("%s: other classes %v", at, legacy)
	}
	return ours
}

// Privilege is for mounts that the kubelet sees; nothing else asks for it.
func TestCSIOnlyTheAgentIsPrivileged(t *testing.T) {
	yes := func(b *bool) bool { return b != nil && *b }
	for _, at := range csiModes {
		pod, c := agent(t, at)
		s := c.SecurityContext
		if !yes(s.Privileged) || !yes(s.ReadOnlyRootFilesystem) || s.RunAsUser == nil || *s.RunAsUser != 0 || s.Capabilities != nil {
			t.Errorf("%s: the agent runs with %+v", at, s)
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s: the pod shares a namespace of its host", at)
		}
		var outward []string
		for _, m := range c.VolumeMounts {
			if m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional {
				outward = append(outward, m.MountPath)
			}
		}
		if !slices.Equal(outward, []string{kubeletOf(at) + "/pods"}) {
			t.Errorf("%s: mounts go outward in %v, want the pods' directory alone", at, outward)
		}
	}
}

func TestCSIDriverObject(t *testing.T) {
	d := one[*storagev1.CSIDriver](t, "csi")
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	if d.Name != csiDriver || !is(d.Spec.AttachRequired, false) || !is(d.Spec.PodInfoOnMount, true) ||
		!is(d.Spec.StorageCapacity, true) || !is(d.Spec.SELinuxMount, false) || !is(d.Spec.RequiresRepublish, false) {
		t.Errorf("%+v", d)
	}
	if p := d.Spec.FSGroupPolicy; p == nil || *p != storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy {
		t.Errorf("fsGroupPolicy %v", p)
	}
	want := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	if !slices.Equal(d.Spec.VolumeLifecycleModes, want) {
		t.Errorf("lifecycle modes %v, want %v", d.Spec.VolumeLifecycleModes, want)
	}
}
