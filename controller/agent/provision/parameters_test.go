package provision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Parameters without effect are one event on the class, whatever claims and agents there are.
func TestIgnoredParametersAreOneEvent(t *testing.T) {
	client := fake.NewClientset()
	for _, node := range []string{"node-01", "node-02"} {
		c := examiner(t)
		c.Events = events.New(client, node)
		t.Cleanup(c.Events.Close)
		for _, uid := range []string{"1", "2"} {
			o := options("wait", "1Mi")
			o.PVC.UID, o.PVName = o.PVC.UID[:35]+types.UID(uid), "pvc-"+uid
			o.StorageClass.UID, o.StorageClass.Parameters = "class-uid", map[string]string{"quotas": "required"}
			if _, _, err := c.Provision(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []corev1.Event
	for _, e := range all.Items {
		if e.Reason == events.ParameterIgnored {
			found = append(found, e)
		}
	}
	if len(found) != 1 || found[0].InvolvedObject.Kind != "StorageClass" || found[0].InvolvedObject.Name != "wait" {
		t.Errorf("%+v", found)
	}
}
