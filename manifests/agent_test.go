package manifests_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// container returns the only container of the file's DaemonSet.
func container(t *testing.T, file string) corev1.Container {
	t.Helper()
	spec := one[*appsv1.DaemonSet](t, file).Spec.Template.Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 || spec.Containers[0].Name != name {
		t.Fatalf("%s: want one container, %s", file, name)
	}
	return spec.Containers[0]
}

func TestDaemonSetSelectorIsStable(t *testing.T) {
	ds := one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml")
	want := map[string]string{"k8s-app": name}
	if ds.Name != name || !maps.Equal(ds.Spec.Selector.MatchLabels, want) || len(ds.Spec.Selector.MatchExpressions) != 0 {
		t.Errorf("DaemonSet %s selects %v, want %s and %v: both are public", ds.Name, ds.Spec.Selector, name, want)
	}
	if got := ds.Spec.Template.Labels["k8s-app"]; got != name {
		t.Errorf("pods are labelled k8s-app %q, which the selector does not find", got)
	}
}

func TestDaemonSetIsConfined(t *testing.T) {
	s := container(t, "legacy/daemonset.yaml").SecurityContext
	isFalse := func(b *bool) bool { return b != nil && !*b }
	if !isFalse(s.Privileged) || !isFalse(s.AllowPrivilegeEscalation) {
		t.Error("the agent is privileged or may become so")
	}
	if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the root filesystem is writable")
	}
	if s.RunAsUser == nil || *s.RunAsUser != 0 {
		t.Error("the agent is not root, and cannot remove other users' files")
	}
	if want := []corev1.Capability{"ALL"}; !slices.Equal(s.Capabilities.Drop, want) {
		t.Errorf("drops %v, want %v", s.Capabilities.Drop, want)
	}
	// The comments beside them say what each is for.
	if want := []corev1.Capability{"DAC_OVERRIDE", "FOWNER", "LINUX_IMMUTABLE"}; !slices.Equal(s.Capabilities.Add, want) {
		t.Errorf("adds %v, want %v", s.Capabilities.Add, want)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp profile %v, want RuntimeDefault", s.SeccompProfile)
	}
	if s.SELinuxOptions == nil || s.SELinuxOptions.Type != "spc_t" {
		t.Errorf("SELinux options %v, want spc_t", s.SELinuxOptions)
	}
	pod := one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml").Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the agent shares a namespace of its host")
	}
}

func TestDaemonSetRunsEverywhere(t *testing.T) {
	ds := one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml")
	pod := ds.Spec.Template.Spec
	if want := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}; !slices.Equal(pod.Tolerations, want) {
		t.Errorf("tolerates %v, want everything", pod.Tolerations)
	}
	if want := map[string]string{"kubernetes.io/os": "linux"}; !maps.Equal(pod.NodeSelector, want) {
		t.Errorf("selects nodes %v, want %v", pod.NodeSelector, want)
	}
	if pod.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %q", pod.PriorityClassName)
	}
	if pod.ServiceAccountName != account {
		t.Errorf("runs as %q, want %q", pod.ServiceAccountName, account)
	}
	if got := ds.Spec.UpdateStrategy.RollingUpdate; got == nil || got.MaxUnavailable.String() != "10%" {
		t.Errorf("rolls out by %v, want 10%% at a time", got)
	}
	r := container(t, "legacy/daemonset.yaml").Resources
	if _, limited := r.Limits[corev1.ResourceCPU]; limited || !r.Limits.Memory().Equal(resource.MustParse("256Mi")) {
		t.Errorf("limits %v, want memory alone", r.Limits)
	}
	if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() {
		t.Errorf("requests %v, want CPU and memory", r.Requests)
	}
}

func TestProbesAskTheAgent(t *testing.T) {
	c := container(t, "legacy/daemonset.yaml")
	if len(c.Ports) != 1 || c.Ports[0].Name != "http" || c.Ports[0].ContainerPort != 9898 {
		t.Fatalf("ports %v, want http 9898", c.Ports)
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
			t.Errorf("no probe asks %s", path)
			continue
		}
		if port := probe.HTTPGet.Port.String(); port != c.Ports[0].Name && port != "9898" {
			t.Errorf("%s is asked on port %s, the agent listens on 9898", path, port)
		}
	}
}

func TestEnvironment(t *testing.T) {
	c := container(t, "legacy/daemonset.yaml")
	got := map[string]string{}
	for _, e := range c.Env {
		got[e.Name] = e.Value
		if e.ValueFrom != nil {
			got[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	want := map[string]string{
		"NODE_NAME":         "spec.nodeName",
		"POD_NAMESPACE":     "metadata.namespace",
		"PV_DIR":            "/var/hpvolumes",
		"USE_NAMING_PREFIX": "false",
	}
	if !maps.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
	if len(c.Args)+len(c.Command) != 0 {
		t.Errorf("arguments %v %v; everything is said by the environment", c.Command, c.Args)
	}
	images := one[*kustomization](t, "legacy/kustomization.yaml").Images
	if repository, _, _ := strings.Cut(c.Image, ":"); len(images) != 1 || images[0].Name != repository {
		t.Errorf("the kustomization sets the tag of %v, the DaemonSet runs %s", images, c.Image)
	}
}

// The agent, its host and its container have to mean the same directory.
func TestPathIsOneAndTheSame(t *testing.T) {
	for _, file := range []string{"legacy/daemonset.yaml", "examples/other-path/daemonset.yaml"} {
		c := container(t, file)
		dir := ""
		for _, e := range c.Env {
			if e.Name == "PV_DIR" {
				dir = e.Value
			}
		}
		volumes := one[*appsv1.DaemonSet](t, file).Spec.Template.Spec.Volumes
		if len(volumes) != 1 || volumes[0].Name != "pv-volume" ||
			volumes[0].HostPath == nil || volumes[0].HostPath.Path != dir {
			t.Errorf("%s: PV_DIR is %q, the volumes are %v", file, dir, volumes)
		}
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "pv-volume" && m.MountPath == dir && !m.ReadOnly &&
				m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationHostToContainer
		})
		if !mounted {
			t.Errorf("%s: PV_DIR is %q, the mounts are %v", file, dir, c.VolumeMounts)
		}
	}
}

func TestRulesAreTheTable(t *testing.T) {
	want := map[string]string{
		"/persistentvolumes":            "get list watch create patch delete",
		"/persistentvolumeclaims":       "get list watch update",
		"storage.k8s.io/storageclasses": "get list watch",
		"/nodes":                        "get",
		"/namespaces kube-system":       "get",
		"/events":                       "get create patch",
	}
	wantRules(t, "legacy/rbac.yaml", one[*rbacv1.ClusterRole](t, "legacy/rbac.yaml").Rules, want)
}

// wantRules compares rules with a table of what may be done to what.
func wantRules(t *testing.T, file string, rules []rbacv1.PolicyRule, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, rule := range rules {
		if len(rule.APIGroups) != 1 || len(rule.Resources) != 1 || len(rule.NonResourceURLs) != 0 {
			t.Errorf("%s: rule %v: one group and one resource each, so that its reason stands beside it", file, rule)
			continue
		}
		key := strings.Join(append([]string{rule.APIGroups[0] + "/" + rule.Resources[0]}, rule.ResourceNames...), " ")
		if _, twice := got[key]; twice {
			t.Errorf("%s: %s: has two rules", file, key)
		}
		got[key] = strings.Join(rule.Verbs, " ")
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s: %s: may %q, want %q", file, key, got[key], want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s: may %q, want nothing", file, key, got[key])
		}
	}
}

func TestAccountIsBound(t *testing.T) {
	ns := one[*corev1.Namespace](t, "legacy/namespace.yaml").Name
	role := one[*rbacv1.ClusterRole](t, "legacy/rbac.yaml").Name
	binding := one[*rbacv1.ClusterRoleBinding](t, "legacy/rbac.yaml")
	if binding.Name != name || binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != role {
		t.Errorf("binding %s gives %v, want %s", binding.Name, binding.RoleRef, role)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: ns}}
	if !slices.Equal(binding.Subjects, want) {
		t.Errorf("bound to %v, want %v", binding.Subjects, want)
	}
	sa := one[*corev1.ServiceAccount](t, "legacy/serviceaccount.yaml")
	ds := one[*appsv1.DaemonSet](t, "legacy/daemonset.yaml")
	if sa.Name != account || sa.Namespace != ns || ds.Namespace != ns {
		t.Errorf("account %s/%s, DaemonSet in %s; want %s/%s", sa.Namespace, sa.Name, ds.Namespace, ns, account)
	}
}
