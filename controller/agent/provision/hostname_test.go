package provision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// A PV requires the hostname that the node has when the volume is made: with a former one its pod
// would never start.
func TestProvisionWithTheHostnameOfNow(t *testing.T) {
	c := examiner(t)
	objects := apitest.Node("node-01", "host-a", "c")
	node := objects[0].(*corev1.Node)
	client := fake.NewClientset(node, objects[1].(*corev1.Namespace))
	c.Info = nodeinfo.New(client, "node-01")
	c.PVs.Node = c.Info
	if err := c.Info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.Labels[corev1.LabelHostname] = "host-b"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func(was time.Duration) { hostnameAge = was }(hostnameAge)
	hostnameAge = 0
	pv, _, err := c.Provision(t.Context(), options("wait", "1Mi"))
	if err != nil || contract.Hostname(pv) != "host-b" {
		t.Errorf("%v, %v, want an affinity to host-b", pv, err)
	}
}
