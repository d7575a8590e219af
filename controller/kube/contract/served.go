package contract

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AgentContainer returns the container of the agent in a pod, nil if there is none. Sidecars have
// other names.
func AgentContainer(pod *corev1.PodSpec) *corev1.Container {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "hostpath-provisioner" })
	switch {
	case i >= 0:
		return &pod.Containers[i]
	case len(pod.Containers) == 1:
		return &pod.Containers[0]
	}
	return nil
}

// AgentSetting returns the value that an agent's container has for a flag: from its arguments, or
// else from the variable. set reports whether the container has either.
func AgentSetting(c *corev1.Container, flag, variable string) (value string, set bool) {
	args := slices.Concat(c.Command, c.Args)
	for i, arg := range args {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != flag || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		return value, true
	}
	for _, e := range c.Env {
		if e.Name == variable {
			return e.Value, true
		}
	}
	return "", false
}

// agentDriver returns the name of an agent's CSI driver, "" if it has none.
func agentDriver(c *corev1.Container) string {
	if endpoint, _ := AgentSetting(c, "endpoint", "HPP_ENDPOINT"); endpoint == "" {
		return ""
	}
	return driverName(c)
}

func driverName(c *corev1.Container) string {
	name, _ := AgentSetting(c, "drivername", "HPP_DRIVERNAME")
	return cmp.Or(name, CSIProvisioner)
}

// ServedClaims returns the provisioners whose claims an agent with these settings serves. In
// driver-only mode the sidecar serves those of the driver.
func ServedClaims(c *corev1.Container) (served []string) {
	provision, _ := AgentSetting(c, "provision", "PROVISION")
	compat, _ := AgentSetting(c, "compat", "COMPAT")
	for name := range strings.SplitSeq(provision, ",") {
		switch strings.TrimSpace(name) {
		case "hostpath":
			served = append(served, HostPathProvisioner)
		case "csi":
			served = append(served, driverName(c))
		}
	}
	dialects, _ := ParseCompat(compat) // the agent refuses to start with another value
	for _, d := range dialects {
		served = append(served, d.Provisioner)
	}
	switch driver := agentDriver(c); {
	case len(served) > 0 || provision != "":
	case driver != "":
		served = append(served, driver)
	default:
		served = append(served, HostPathProvisioner)
	}
	return served
}

// ServedVolumes returns the provisioners whose volumes need an agent with these settings: those of
// its claims, and its CSI driver.
func ServedVolumes(c *corev1.Container) []string {
	served := ServedClaims(c)
	if driver := agentDriver(c); driver != "" && !slices.Contains(served, driver) {
		served = append(served, driver)
	}
	return served
}

// VolumeProvisioner returns the provisioner or CSI driver that a PV's volume needs, "" if the PV names none.
func VolumeProvisioner(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return pv.Annotations[AnnProvisionedBy]
}
