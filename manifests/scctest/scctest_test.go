package scctest_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/manifests/scctest"
)

// Every field that is not allowed is refused, and nothing else of the pod is.
func TestRefusals(t *testing.T) {
	for words, change := range map[string]func(*corev1.PodSpec, *corev1.SecurityContext){
		"":                           func(*corev1.PodSpec, *corev1.SecurityContext) {},
		"hostPID is not allowed":     func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.HostPID = true },
		"hostNetwork is not allowed": func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.HostNetwork = true },
		"hostIPC is not allowed":     func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.HostIPC = true },
		"hostPath volumes are not allowed": func(p *corev1.PodSpec, _ *corev1.SecurityContext) {
			p.Volumes[0].HostPath = &corev1.HostPathVolumeSource{}
		},
		"seLinuxOptions are those of": func(_ *corev1.PodSpec, c *corev1.SecurityContext) {
			c.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		},
		"sysctls are not modelled": func(p *corev1.PodSpec, _ *corev1.SecurityContext) {
			p.SecurityContext.Sysctls = make([]corev1.Sysctl, 1)
		},
		"privileged is not allowed":         func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Privileged = ptr.To(true) },
		"allowPrivilegeEscalation":          func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = ptr.To(true) },
		"root is not allowed":               func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.SecurityContext.RunAsUser = new(int64) },
		"capability CHOWN may not be added": func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities.Add = []corev1.Capability{"CHOWN"} },
		`seccomp profile "unconfined"`: func(_ *corev1.PodSpec, c *corev1.SecurityContext) {
			c.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"host port 80 is not allowed":    func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.Containers[0].Ports[0].HostPort = 80 },
		"procMount is not modelled here": func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.ProcMount = ptr.To(corev1.UnmaskedProcMount) },
	} {
		pod := corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)},
			Volumes:         []corev1.Volume{{Name: "data"}}, // an emptyDir
			Containers: []corev1.Container{{Name: "main", Ports: make([]corev1.ContainerPort, 1), SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"}}}}},
		}
		change(&pod, pod.Containers[0].SecurityContext)
		got := scctest.NonRootV2().Refusals(pod)
		if fits := len(got) == 0; fits != (words == "") || !fits && !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, words) }) {
			t.Errorf("refused for %q, want %q", got, words)
		}
	}
	strict := scctest.NonRootV2()
	strict.Volumes, strict.ReadOnlyRootFilesystem, strict.SeccompProfiles = nil, true, nil
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: new(bool)}}}}
	want := []string{"the account's token: projected volumes are not allowed", "container main: the root filesystem has to be read-only"}
	if got := strict.Refusals(pod); !slices.Equal(got, want) {
		t.Errorf("refused for %q, want %q", got, want)
	}
}
