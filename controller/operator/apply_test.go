package operator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply/applytest"
)

// What is applied does not differ when it is read again: otherwise every pass would write it.
func TestAppliedIsTheSame(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"}}
	s := Settings{Namespace: "ns", Monitoring: "monitoring", Image: "image:v1"}
	all, err := s.monitored(cr)
	applytest.Same(t, all, err)
}
