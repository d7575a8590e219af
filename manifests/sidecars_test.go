package manifests_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The provisioner has the agent's socket, no privilege, and nothing else of the host.
func TestSidecarIsConfined(t *testing.T) {
	pod, driver := agent(t, sidecars)
	sidecar := pod.Containers[1]
	endpoint := strings.TrimPrefix(arguments(t, driver)["--endpoint"], "unix://")
	if got := arguments(t, sidecar)["--csi-address"]; got != endpoint {
		t.Errorf("the driver is at %s, the provisioner looks at %s", endpoint, got)
	}
	dir := path.Dir(endpoint)
	if a, b := hostOf(pod, driver, dir), hostOf(pod, sidecar, dir); a != b || len(sidecar.VolumeMounts) != 1 {
		t.Errorf("the driver's directory is %s; the provisioner mounts %v, want it alone", a, sidecar.VolumeMounts)
	}
	s := sidecar.SecurityContext
	no := func(b *bool) bool { return b != nil && !*b }
	if !no(s.Privileged) || !no(s.AllowPrivilegeEscalation) || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Errorf("the provisioner runs with %+v", s)
	}
	if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) != 0 {
		t.Errorf("the provisioner has capabilities %v", s.Capabilities)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the provisioner has seccomp profile %v, want RuntimeDefault", s.SeccompProfile)
	}
}

func TestSidecarServesItsNode(t *testing.T) {
	pod, _ := agent(t, sidecars)
	sidecar := pod.Containers[1]
	want := map[string]string{
		"--csi-address": "/csi/csi.sock", "--node-deployment": "true", "--strict-topology": "true",
		"--immediate-topology": "false", "--enable-capacity": "true", "--capacity-ownerref-level": "1",
		"--extra-create-metadata": "true", "--feature-gates": "Topology=true", "--default-fstype": "xfs",
	}
	if got := arguments(t, sidecar); !maps.Equal(got, want) {
		t.Errorf("arguments %v, want %v", got, want)
	}
	want = map[string]string{"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "NAMESPACE": "metadata.namespace"}
	if got := environment(sidecar); !maps.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
	images := one[*kustomization](t, sidecars+"/kustomization.yaml").Images
	if repository, tag, _ := strings.Cut(sidecar.Image, ":"); len(images) != 1 || images[0].Name != repository || images[0].NewTag != tag {
		t.Errorf("the kustomization sets the tag of %v, the provisioner is %s", images, sidecar.Image)
	}
}
