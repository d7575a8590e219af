package install

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply/applytest"
	"kubevirt.io/hostpath-provisioner/controller/operator/constraints"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

// What is applied does not differ when it is read again: otherwise every pass would write it.
func TestAppliedIsTheSame(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"},
		Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}}
	s := Settings{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1"}
	all, err := s.desired(cr, plan{Layout: layout.Of(cr)})
	applytest.Same(t, all, err)
	all, err = constraints.Of(s.Installation)
	applytest.Same(t, all, err)
	all, err = s.webhook(cr)
	applytest.Same(t, all, err)
}
