package operator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/install"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Settings are those of the operator's Deployment.
type Settings struct {
	// Namespace is that of the operator, and of the agents.
	Namespace string
	// Image is that of the agents. If it is empty, WithImage takes that of Pod, the operator's own.
	Image, Pod string
	// Version is that of the operator.
	Version string
	// PartOf and Installer are the values of the labels app.kubernetes.io/part-of and
	// app.kubernetes.io/version; the second may be empty.
	PartOf, Installer string
	// Verbosity is the level of the agents' logs.
	Verbosity int
	// Monitoring is the namespace of Prometheus.
	Monitoring string
	// Runbooks is the address of the page of an alert, with %s for its name. If it is empty, that
	// of the rules stays.
	Runbooks string
	// TLS has the settings of the environment, which precede those of the cluster.
	TLS tlsprofile.Profile
}

// agents returns the settings of the agents, and of what is applied for them.
func (s Settings) agents() install.Settings {
	return install.Settings{Installation: s.installation(), Image: s.Image, Version: s.Version, Verbosity: s.Verbosity}
}

// installation returns what the objects that the operator applies have in common.
func (s Settings) installation() apply.Installation {
	return apply.Installation{Namespace: s.Namespace, PartOf: s.PartOf, Installer: s.Installer}
}

// ignoredImages are variables of the existing operator for containers that the agent does not need.
var ignoredImages = []string{"NODE_DRIVER_REG_IMAGE", "LIVENESS_PROBE_IMAGE", "CSI_SNAPSHOT_IMAGE",
	"CSI_SIG_STORAGE_PROVISIONER_IMAGE"}

// ParseSettings reads the settings from the environment. It returns the names of variables that are
// set and have no effect. The error names the variable.
func ParseSettings(version string, env func(string) string) (s Settings, ignored []string, err error) {
	s = Settings{
		Namespace: namespace(), Version: version,
		PartOf: cmp.Or(env("INSTALLER_PART_OF_LABEL"), "hostpath-provisioner"), Installer: env("INSTALLER_VERSION_LABEL"),
		Monitoring: cmp.Or(env("MONITORING_NAMESPACE"), "monitoring"), Runbooks: env("RUNBOOK_URL_TEMPLATE"),
		TLS:   tlsprofile.Overrides(env),
		Image: cmp.Or(env("OPERATOR_IMAGE"), env("CSI_PROVISIONER_IMAGE"), env("PROVISIONER_IMAGE")),
		Pod:   env("POD_NAME"),
	}
	for _, name := range ignoredImages {
		if env(name) != "" {
			ignored = append(ignored, name)
		}
	}
	if s.Image == "" && s.Pod == "" {
		return s, ignored, errors.New("neither POD_NAME nor OPERATOR_IMAGE is set; set the first to the name of this pod, " +
			"or the second to its image, which has the agent too")
	}
	if s.Runbooks != "" && strings.Count(s.Runbooks, "%s") != 1 {
		return s, ignored, fmt.Errorf("RUNBOOK_URL_TEMPLATE is %q; set it to an address with one %%s for the name of the "+
			"alert", s.Runbooks)
	}
	s.Verbosity, err = strconv.Atoi(cmp.Or(env("VERBOSITY"), "0"))
	if err != nil || s.Verbosity < 0 {
		return s, ignored, fmt.Errorf("VERBOSITY is %q; set it to a number that is not negative", env("VERBOSITY"))
	}
	return s, ignored, nil
}

// namespace returns the namespace of the pod, outside of one that of the manifests.
func namespace() string {
	text, err := os.ReadFile(namespaceFile)
	if name := strings.TrimSpace(string(text)); err == nil && name != "" {
		return name
	}
	return "hostpath-provisioner"
}
