package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
	openshiftcsi "kubevirt.io/hostpath-provisioner/manifests/openshift-csi"
	"kubevirt.io/hostpath-provisioner/manifests/scctest"
)

// OpenShift's admission takes both pods under the agents' constraints, which they require.
func TestAdmitted(t *testing.T) {
	var object map[string]any
	if err := yaml.Unmarshal(openshiftcsi.Constraints, &object); err != nil {
		t.Fatal(err)
	}
	openshiftcsi.ForOperator(object, "ns")
	constraints, err := scctest.From(object)
	if err != nil {
		t.Fatal(err)
	}
	k, cr := Maker{Installation: apply.Installation{Namespace: "ns"}}, &v1beta1.HostPathProvisioner{}
	of := poolrecord.Holder{Pool: "local", Node: "node-01", Path: "/srv/local/csi"}
	holder := k.Holder(cr, Pool{Name: "local", Path: "/srv/local/csi"}, "node-01", of)
	for name, pod := range map[string]corev1.PodTemplateSpec{"holder": holder.Spec.Template, "unmounter": k.Unmounter(cr, holder, of).Spec.Template} {
		if why := constraints.Refusals(pod.Spec); len(why) > 0 || pod.Annotations["openshift.io/required-scc"] != constraints.Name {
			t.Errorf("%s: refused for %q by %s, annotations %v", name, why, constraints.Name, pod.Annotations)
		}
	}
}
