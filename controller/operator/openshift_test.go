package operator

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// The constraints allow what the agents request, and are for their account alone.
func TestConstraintsFitTheAgents(t *testing.T) {
	s := Settings{Namespace: "ns", PartOf: "whole"}
	objects, err := s.constraints(nil)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%v, %v", objects, err)
	}
	o := objects[0].Object
	if o["allowPrivilegedContainer"] != true || o["allowHostDirVolumePlugin"] != true || o["allowHostPID"] != true ||
		o["allowHostNetwork"] != false || o["allowHostPorts"] != false || o["allowHostIPC"] != false {
		t.Errorf("constraints %v", o)
	}
	if users := o["users"].([]any); !slices.Equal(users, []any{"system:serviceaccount:ns:hostpath-provisioner-admin-csi"}) {
		t.Errorf("users %v", users)
	}
	p := pod(t, v1beta1.HostPathProvisionerSpec{PathConfig: &v1beta1.PathConfig{Path: "/srv"}})
	for _, v := range p.Volumes {
		if v.HostPath == nil {
			t.Errorf("volume %v", v)
		}
	}
	if p.HostNetwork || p.HostIPC || p.ServiceAccountName != "hostpath-provisioner-admin-csi" {
		t.Errorf("pod %+v", p)
	}
	if ports := p.Containers[0].Ports; slices.ContainsFunc(ports, func(c corev1.ContainerPort) bool { return c.HostPort != 0 }) {
		t.Errorf("ports %v", ports)
	}
}
