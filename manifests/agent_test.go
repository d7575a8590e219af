package manifests_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// agent returns the DaemonSet's pod and its only container, which only csi-sidecars has another
// beside.
func agent(t *testing.T, at string) (corev1.PodSpec, corev1.Container) {
	t.Helper()
	pod := one[*appsv1.DaemonSet](t, at).Spec.Template.Spec
	want := []string{name}
	if at == sidecars {
		want = append(want, "csi-provisioner")
	}
	var got []string
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		got = append(got, c.Name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: containers %v, want %v", at, got, want)
	}
	return pod, pod.Containers[0]
}

// environment is what a container's variables are set to, or the field that each is taken from.
func environment(c corev1.Container) map[string]string {
	got := map[string]string{}
	for _, e := range c.Env {
		got[e.Name] = e.Value
		if e.ValueFrom != nil {
			got[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	return got
}

// The plugin of kubectl runs commands in pods with the mark alone. A form without it would have agents
// that the plugin cannot ask.
func TestEachFormMarksItsAgents(t *testing.T) {
	marked := 0
	for _, form := range slices.Sorted(maps.Values(charted)) {
		for _, o := range render(t, form) {
			if ds, is := o.(*appsv1.DaemonSet); is {
				marked++
				if ds.Spec.Template.Annotations[contract.AnnAgent] == "" || ds.Spec.Template.Labels[contract.AnnAgent] != "" || ds.Spec.Selector.MatchLabels[contract.AnnAgent] != "" {
					t.Errorf("%s: DaemonSet %s has annotations %v", form, ds.Name, ds.Spec.Template.Annotations)
				}
			}
		}
	}
	if marked < 12 {
		t.Errorf("%d DaemonSets", marked)
	}
	for _, form := range []string{sidecars, "examples/two-pools", "local-path/k3s"} {
		if ds := one[*appsv1.DaemonSet](t, form); ds.Spec.Template.Annotations[contract.AnnAgent] == "" {
			t.Errorf("%s: DaemonSet %s has annotations %v", form, ds.Name, ds.Spec.Template.Annotations)
		}
	}
}

func TestTheOperatorMarksItsAgents(t *testing.T) {
	data, err := os.ReadFile("../controller/operator/install/agent.yaml")
	if err != nil || !strings.Contains(string(data), "      annotations:\n        "+contract.AnnAgent+": \"true\"\n") {
		t.Errorf("the pod template lacks %s; %v", contract.AnnAgent, err)
	}
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
	pod, c := agent(t, "legacy")
	s := c.SecurityContext
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
	if want := []corev1.Capability{"DAC_OVERRIDE", "FOWNER", "LINUX_IMMUTABLE", "CHOWN"}; !slices.Equal(s.Capabilities.Add, want) {
		t.Errorf("adds %v, want %v", s.Capabilities.Add, want)
	}
	// One more, and nothing else, holds volumes to their size.
	_, limits := agent(t, "examples/legacy-quotas")
	want := s.DeepCopy()
	want.Capabilities.Add = append(want.Capabilities.Add, "SYS_ADMIN")
	if !apiequality.Semantic.DeepEqual(limits.SecurityContext, want) || !apiequality.Semantic.DeepEqual(limits.VolumeMounts, c.VolumeMounts) {
		t.Errorf("examples/legacy-quotas runs with %+v, want SYS_ADMIN besides what legacy has", limits.SecurityContext)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp profile %v, want RuntimeDefault", s.SeccompProfile)
	}
	if s.SELinuxOptions == nil || s.SELinuxOptions.Type != "spc_t" {
		t.Errorf("SELinux options %v, want spc_t", s.SELinuxOptions)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the agent shares a namespace of its host")
	}
}

func TestDaemonSetsRunEverywhere(t *testing.T) {
	for at, account := range map[string]string{"legacy": account, "csi": csiAccount, sidecars: csiAccount} {
		ds := one[*appsv1.DaemonSet](t, at)
		pod, c := agent(t, at)
		if want := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}; !slices.Equal(pod.Tolerations, want) {
			t.Errorf("%s: tolerates %v, want everything", at, pod.Tolerations)
		}
		if want := map[string]string{"kubernetes.io/os": "linux"}; !maps.Equal(pod.NodeSelector, want) {
			t.Errorf("%s: selects nodes %v, want %v", at, pod.NodeSelector, want)
		}
		if pod.PriorityClassName != "system-node-critical" {
			t.Errorf("%s: priority class %q", at, pod.PriorityClassName)
		}
		if pod.ServiceAccountName != account {
			t.Errorf("%s: runs as %q, want %q", at, pod.ServiceAccountName, account)
		}
		if got := ds.Spec.UpdateStrategy.RollingUpdate; got == nil || got.MaxUnavailable.String() != "10%" {
			t.Errorf("%s: rolls out by %v, want 10%% at a time", at, got)
		}
		want := corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("50Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
		}
		if !apiequality.Semantic.DeepEqual(c.Resources, want) {
			t.Errorf("%s: resources %v, want %v: no limit of CPU", at, c.Resources, want)
		}
	}
}

func TestProbesAskTheAgent(t *testing.T) {
	for _, at := range []string{"legacy", "csi", sidecars} {
		_, c := agent(t, at)
		if len(c.Ports) != 1 || c.Ports[0].Name != "http" || c.Ports[0].ContainerPort != 9898 {
			t.Fatalf("%s: ports %v, want http 9898", at, c.Ports)
		}
		for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, contract.ProbePath: c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
				t.Errorf("%s: no probe asks %s", at, path)
				continue
			}
			if port := probe.HTTPGet.Port.String(); port != c.Ports[0].Name && port != "9898" {
				t.Errorf("%s: %s is asked on port %s, the agent listens on 9898", at, path, port)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	_, c := agent(t, "legacy")
	want := map[string]string{
		"NODE_NAME":         "spec.nodeName",
		"POD_NAME":          "metadata.name",
		"POD_NAMESPACE":     "metadata.namespace",
		"PV_DIR":            "/var/hpvolumes",
		"USE_NAMING_PREFIX": "false",
	}
	if got := environment(c); !maps.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
	if len(c.Args)+len(c.Command) != 0 {
		t.Errorf("arguments %v %v; everything is said by the environment", c.Command, c.Args)
	}
}

// The agent, its host and its container have to mean the same directory.
func TestPathIsOneAndTheSame(t *testing.T) {
	for _, at := range []string{"legacy", "openshift", "examples/other-path", "examples/both-modes"} {
		pod, c := agent(t, at)
		dir := environment(c)["PV_DIR"]
		if m := mountAt(c, dir); m.Name != "pv-volume" || m.ReadOnly || hostOf(pod, c, dir) != dir ||
			m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer {
			t.Errorf("%s: PV_DIR is %q, the volumes are %v, the mounts %v", at, dir, pod.Volumes, c.VolumeMounts)
		}
		if at != "examples/both-modes" && len(pod.Volumes)+len(c.VolumeMounts) != 2 {
			t.Errorf("%s: has volumes %v and mounts %v, want that of PV_DIR alone", at, pod.Volumes, c.VolumeMounts)
		}
	}
}
