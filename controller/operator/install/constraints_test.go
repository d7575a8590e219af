package install

import (
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/constraints"
	"kubevirt.io/hostpath-provisioner/manifests/scctest"
)

// The constraints allow what the agents request, and are for their account alone.
func TestConstraintsFitTheAgents(t *testing.T) {
	objects, err := constraints.Of(apply.Installation{Namespace: "ns", PartOf: "whole"})
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
	allowed, err := scctest.From(o)
	if err != nil {
		t.Fatal(err)
	}
	p := pod(t, v1beta1.HostPathProvisionerSpec{PathConfig: &v1beta1.PathConfig{Path: "/srv"}})
	if why := allowed.Refusals(p); len(why) > 0 {
		t.Errorf("the agents are refused: %q", why)
	}
	for _, v := range p.Volumes { // the constraints allow claims too, for the pods of pools on claims
		if v.HostPath == nil {
			t.Errorf("volume %v", v)
		}
	}
	if p.ServiceAccountName != "hostpath-provisioner-admin-csi" {
		t.Errorf("pod %+v", p)
	}
}
