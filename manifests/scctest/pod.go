package scctest

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Refusals returns why the constraints do not admit the pod, nothing if they do. The token of the
// pod's account counts as a volume unless the pod mounts none.
func (c *Constraints) Refusals(pod corev1.PodSpec) (why []string) {
	refuse := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	for _, of := range []struct {
		field      string
		asks, fits bool
	}{
		{"hostPID", pod.HostPID, c.AllowHostPID},
		{"hostNetwork", pod.HostNetwork, c.AllowHostNetwork},
		{"hostIPC", pod.HostIPC, c.AllowHostIPC},
	} {
		if of.asks && !of.fits {
			refuse("%s is not allowed", of.field)
		}
	}
	for _, v := range pod.Volumes {
		kind := kindOf(v)
		if !slices.Contains(c.Volumes, kind) || kind == "hostPath" && !c.AllowHostDirVolumePlugin {
			refuse("volume %s: %s volumes are not allowed", v.Name, kind)
		}
	}
	if token := pod.AutomountServiceAccountToken; (token == nil || *token) && !slices.Contains(c.Volumes, "projected") {
		refuse("the account's token: projected volumes are not allowed")
	}
	own := pod.SecurityContext
	if own == nil {
		own = &corev1.PodSecurityContext{}
	}
	if c.SELinuxContext.Type != runAsAny && own.SELinuxOptions != nil {
		refuse("seLinuxOptions are those of the namespace, not the pod's")
	}
	if c.FSGroup.Type != runAsAny && own.FSGroup != nil || c.SupplementalGroups.Type != runAsAny &&
		len(own.SupplementalGroups) > 0 {
		refuse("groups are those of the namespace, not the pod's")
	}
	if len(own.Sysctls) > 0 {
		refuse("sysctls are not modelled here")
	}
	profile := c.profile(own.SeccompProfile, "")
	if problem := c.seccomp(profile); problem != "" {
		refuse("%s", problem)
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, problem := range c.container(container, own, profile) {
			refuse("container %s: %s", container.Name, problem)
		}
	}
	return why
}

// kindOf returns the volume's type by the name that constraints have for it, which is that of its
// field.
func kindOf(v corev1.Volume) string {
	data, err := json.Marshal(v.VolumeSource)
	if err != nil {
		return err.Error()
	}
	var set map[string]any
	if err := json.Unmarshal(data, &set); err != nil {
		return err.Error()
	}
	for kind := range set {
		return kind
	}
	return "emptyDir"
}

// profile returns the seccomp profile that applies, by the name that constraints have for it: the
// field's, else the one of the pod, else the first that the constraints allow. "" is none.
func (c *Constraints) profile(p *corev1.SeccompProfile, ofPod string) string {
	switch {
	case p == nil && ofPod != "":
		return ofPod
	case p == nil && len(c.SeccompProfiles) > 0:
		return c.SeccompProfiles[0]
	case p == nil:
		return ""
	case p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return corev1.SeccompProfileRuntimeDefault
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return corev1.SeccompLocalhostProfileNamePrefix + *p.LocalhostProfile
	}
	return corev1.SeccompProfileNameUnconfined
}

func (c *Constraints) seccomp(profile string) string {
	if profile == "" && len(c.SeccompProfiles) == 0 || slices.Contains(c.SeccompProfiles, profile) {
		return ""
	}
	return fmt.Sprintf("seccomp profile %q is not allowed, but %q", profile, c.SeccompProfiles)
}
