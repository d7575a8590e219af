package scctest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// container returns why the constraints do not admit a container of a pod with that context and
// seccomp profile.
func (c *Constraints) container(k corev1.Container, pod *corev1.PodSecurityContext, profile string) (why []string) {
	refuse := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	own := k.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	if is(own.Privileged) && !c.AllowPrivilegedContainer {
		refuse("privileged is not allowed")
	}
	if c.ReadOnlyRootFilesystem && own.ReadOnlyRootFilesystem != nil && !*own.ReadOnlyRootFilesystem {
		refuse("the root filesystem has to be read-only")
	}
	// What is not set becomes false where escalation is not allowed, and a privileged container may
	// not have that.
	if forbidden := c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation; forbidden &&
		(is(own.AllowPrivilegeEscalation) || is(own.Privileged)) {
		refuse("allowPrivilegeEscalation is not allowed")
	}
	if problem := c.user(or(own.RunAsUser, pod.RunAsUser), or(own.RunAsNonRoot, pod.RunAsNonRoot)); problem != "" {
		refuse("%s", problem)
	}
	if c.SELinuxContext.Type != runAsAny && own.SELinuxOptions != nil {
		refuse("seLinuxOptions are those of the namespace, not the container's")
	}
	if own.Capabilities != nil { // what has to be dropped is dropped for the container
		for _, add := range own.Capabilities.Add {
			if !slices.Contains(c.AllowedCapabilities, add) && !slices.Contains(c.DefaultAddCapabilities, add) {
				refuse("capability %s may not be added", add)
			}
		}
	}
	if problem := c.seccomp(c.profile(own.SeccompProfile, profile)); problem != "" {
		refuse("%s", problem)
	}
	if own.ProcMount != nil && *own.ProcMount != corev1.DefaultProcMount {
		refuse("procMount is not modelled here")
	}
	for _, port := range k.Ports {
		if port.HostPort != 0 && !c.AllowHostPorts {
			refuse("host port %d is not allowed", port.HostPort)
		}
	}
	return why
}

func (c *Constraints) user(id *int64, not *bool) string {
	switch c.RunAsUser.Type {
	case runAsAny:
		return ""
	case nonRoot:
		if id != nil && *id == 0 || not != nil && !*not {
			return "root is not allowed"
		}
		return ""
	}
	return "user strategy " + c.RunAsUser.Type + " is not modelled here"
}

func is(b *bool) bool { return b != nil && *b }

// or returns the container's value, or the pod's if the container has none.
func or[T any](container, pod *T) *T {
	if container != nil {
		return container
	}
	return pod
}
