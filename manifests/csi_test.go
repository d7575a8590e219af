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
)

const (
	csiName   = "hostpath-provisioner-csi"
	csiDriver = "kubevirt.io.hostpath-provisioner"
	kubelet   = "/var/lib/kubelet"
	csiSet    = "csi-sidecars/daemonset.yaml"
)

// csiPod returns the DaemonSet's pod, its driver and its provisioner.
func csiPod(t *testing.T) (pod corev1.PodSpec, driver, sidecar corev1.Container) {
	t.Helper()
	pod = one[*appsv1.DaemonSet](t, csiSet).Spec.Template.Spec
	if len(pod.Containers) != 2 || len(pod.InitContainers) != 0 ||
		pod.Containers[0].Name != name || pod.Containers[1].Name != "csi-provisioner" {
		t.Fatalf("%s: want two containers, the driver and the provisioner", csiSet)
	}
	return pod, pod.Containers[0], pod.Containers[1]
}

// argument is the value of a container's argument, "true" for one without.
func argument(t *testing.T, c corev1.Container, flag string) string {
	t.Helper()
	for _, arg := range c.Args {
		if found, value, given := strings.Cut(arg, "="); found == flag {
			if !given {
				value = "true"
			}
			return value
		}
	}
	t.Errorf("%s has no %s", c.Name, flag)
	return ""
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

func TestCSISelector(t *testing.T) {
	ds := one[*appsv1.DaemonSet](t, csiSet)
	want := map[string]string{"k8s-app": csiName}
	if ds.Name != csiName || !maps.Equal(ds.Spec.Selector.MatchLabels, want) || !maps.Equal(ds.Spec.Template.Labels, want) {
		t.Errorf("DaemonSet %s selects %v of %v, want %v", ds.Name, ds.Spec.Selector, ds.Spec.Template.Labels, want)
	}
	legacy := one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml")
	if maps.Equal(legacy.Spec.Selector.MatchLabels, want) {
		t.Error("the selector is that of the other DaemonSet, and both may be in one namespace")
	}
}

// The driver, its sidecar and the kubelet have to mean the same socket.
func TestCSISocketIsOneAndTheSame(t *testing.T) {
	pod, driver, sidecar := csiPod(t)
	endpoint := strings.TrimPrefix(argument(t, driver, "--endpoint"), "unix://")
	if got := argument(t, sidecar, "--csi-address"); got != endpoint {
		t.Errorf("the driver is at %s, the provisioner looks at %s", endpoint, got)
	}
	dir := path.Dir(endpoint)
	onHost := path.Join(hostOf(pod, driver, dir), path.Base(endpoint))
	if got := argument(t, driver, "--kubelet-registration-path"); got != onHost ||
		onHost != kubelet+"/plugins/csi-hostpath/csi.sock" {
		t.Errorf("the socket is %s on the host, the kubelet is told %s", onHost, got)
	}
	if a, b := hostOf(pod, driver, dir), hostOf(pod, sidecar, dir); a != b {
		t.Errorf("the driver's directory is %s, the provisioner's %s", a, b)
	}
	if got := hostOf(pod, driver, "/registration"); got != kubelet+"/plugins_registry" {
		t.Errorf("registers in %q", got)
	}
	if got := argument(t, driver, "--kubelet-dir"); got != kubelet || hostOf(pod, driver, got+"/pods") != got+"/pods" {
		t.Errorf("the kubelet's directory is %s, the pods' is %q", got, hostOf(pod, driver, got+"/pods"))
	}
}

func TestCSIPoolsLieInVolumes(t *testing.T) {
	pod, driver, _ := csiPod(t)
	var pools []struct{ Name, Path string }
	if err := json.Unmarshal([]byte(argument(t, driver, "--datadir")), &pools); err != nil || len(pools) == 0 {
		t.Fatalf("--datadir: %v, %v", pools, err)
	}
	class := one[*storagev1.StorageClass](t, "csi-sidecars/storageclass.yaml")
	named := false
	for _, p := range pools {
		named = named || p.Name == class.Parameters["storagePool"]
		m := mountAt(driver, path.Dir(p.Path))
		if m.ReadOnly || m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer ||
			hostOf(pod, driver, m.MountPath) != m.MountPath {
			t.Errorf("pool %s at %s: mounted by %+v", p.Name, p.Path, m)
		}
	}
	if !named {
		t.Errorf("class %s names pool %q, the driver has %v", class.Name, class.Parameters["storagePool"], pools)
	}
	if class.Name != "hostpath-csi" || class.Provisioner != csiDriver ||
		class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
		class.ReclaimPolicy == nil || *class.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("class %+v", class)
	}
}

// Privilege is for mounts that the kubelet sees; nothing else asks for it.
func TestCSIOnlyTheDriverIsPrivileged(t *testing.T) {
	pod, driver, sidecar := csiPod(t)
	yes := func(b *bool) bool { return b != nil && *b }
	no := func(b *bool) bool { return b != nil && !*b }
	for _, c := range pod.Containers {
		if !yes(c.SecurityContext.ReadOnlyRootFilesystem) {
			t.Errorf("%s: the root filesystem is writable", c.Name)
		}
	}
	s := sidecar.SecurityContext
	if !yes(driver.SecurityContext.Privileged) || !no(s.Privileged) || !no(s.AllowPrivilegeEscalation) {
		t.Error("want the driver privileged, and the provisioner not")
	}
	if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) != 0 {
		t.Errorf("the provisioner has capabilities %v", s.Capabilities)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the provisioner has seccomp profile %v, want RuntimeDefault", s.SeccompProfile)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace of its host")
	}
	outward := 0
	for _, m := range driver.VolumeMounts {
		if m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional {
			outward++
		}
	}
	if outward != 1 || len(sidecar.VolumeMounts) != 1 {
		t.Errorf("%d mounts go outward, want the pods' directory alone; the provisioner mounts %v, want the socket alone",
			outward, sidecar.VolumeMounts)
	}
}

func TestCSIProvisionerServesItsNode(t *testing.T) {
	_, driver, sidecar := csiPod(t)
	for flag, want := range map[string]string{
		"--node-deployment": "true", "--strict-topology": "true", "--immediate-topology": "false",
		"--enable-capacity": "true", "--capacity-ownerref-level": "1", "--extra-create-metadata": "true",
		"--feature-gates": "Topology=true", "--default-fstype": "xfs",
	} {
		if got := argument(t, sidecar, flag); got != want {
			t.Errorf("provisioner: %s is %q, want %q", flag, got, want)
		}
	}
	want := map[string]string{"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "NAMESPACE": "metadata.namespace"}
	got := map[string]string{}
	for _, e := range sidecar.Env {
		got[e.Name] = e.ValueFrom.FieldRef.FieldPath
	}
	if !maps.Equal(got, want) {
		t.Errorf("provisioner: environment %v, want %v", got, want)
	}
	if got := argument(t, driver, "--drivername"); got != csiDriver {
		t.Errorf("the driver's name is %q", got)
	}
	images := one[*kustomization](t, "csi-sidecars/kustomization.yaml").Images
	for i, c := range []corev1.Container{driver, sidecar} {
		if repository, _, _ := strings.Cut(c.Image, ":"); len(images) != 2 || images[i].Name != repository {
			t.Errorf("the kustomization sets the tags of %v, %s runs %s", images, c.Name, c.Image)
		}
	}
}

func TestCSIDriverObject(t *testing.T) {
	d := one[*storagev1.CSIDriver](t, "csi-sidecars/csidriver.yaml")
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

func TestCSIRulesAreTheTable(t *testing.T) {
	const file = "csi-sidecars/rbac.yaml"
	wantRules(t, file, one[*rbacv1.ClusterRole](t, file).Rules, map[string]string{
		"/persistentvolumes":            "get list watch create patch delete",
		"/persistentvolumeclaims":       "get list watch update",
		"storage.k8s.io/storageclasses": "get list watch",
		"/events":                       "create patch",
	})
	wantRules(t, file, one[*rbacv1.Role](t, file).Rules, map[string]string{
		"storage.k8s.io/csistoragecapacities": "get list watch create update delete",
		"/pods":                               "get",
		"apps/daemonsets":                     "get",
	})
	sa := one[*corev1.ServiceAccount](t, "csi-sidecars/serviceaccount.yaml")
	pod, _, _ := csiPod(t)
	if pod.ServiceAccountName != sa.Name {
		t.Errorf("runs as %q, the account is %q", pod.ServiceAccountName, sa.Name)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: sa.Name, Namespace: sa.Namespace}}
	all, here := one[*rbacv1.ClusterRoleBinding](t, file), one[*rbacv1.RoleBinding](t, file)
	for _, subjects := range [][]rbacv1.Subject{all.Subjects, here.Subjects} {
		if !slices.Equal(subjects, want) {
			t.Errorf("bound to %v, want %v", subjects, want)
		}
	}
	if all.RoleRef.Name != csiName || here.RoleRef.Name != csiName || here.Namespace != sa.Namespace {
		t.Errorf("bindings give %v and %v", all.RoleRef, here.RoleRef)
	}
}
