package nodeinfo

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The cluster's identity is optional; everything else that a node has to know is not.
func TestInfoWithoutCluster(t *testing.T) {
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-01", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	for _, row := range []struct {
		path   string
		status int
		fails  bool
	}{
		{"/api/v1/namespaces/kube-system", http.StatusForbidden, false},
		{"/api/v1/namespaces/kube-system", http.StatusNotFound, false},
		{"/api/v1/namespaces/kube-system", http.StatusInternalServerError, true},
		{"/api/v1/nodes/node-01", http.StatusForbidden, true},
	} {
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusInternalServerError: metav1.StatusReasonInternalError}
		client := apitest.Client(t, func(r *http.Request) (int, any) {
			if r.URL.Path == row.path {
				return row.status, apitest.Failure(row.status, reasons[row.status])
			}
			return http.StatusOK, node
		})
		i := New(client, "node-01")
		err := i.Read(t.Context())
		if (err != nil) != row.fails || err == nil && (i.Cluster() != "" || i.Hostname() != "host-a") {
			t.Errorf("%s answers %d: cluster %q, error %v", row.path, row.status, i.Cluster(), err)
		}
	}
}

// The Node is deleted and registered again while the agent runs: it has the UID of the new one, and
// keeps its own while there is none.
func TestRegisteredAgain(t *testing.T) {
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "old", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	status := http.StatusOK
	i := New(apitest.Client(t, func(r *http.Request) (int, any) {
		switch {
		case r.URL.Path != "/api/v1/nodes/node-01":
			return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
		case status != http.StatusOK:
			return status, apitest.Failure(status, metav1.StatusReasonNotFound)
		}
		return status, node
	}), "node-01")
	if err := i.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	status = http.StatusNotFound
	i.ReadAgain(t.Context(), 0)
	if i.UID() != "old" {
		t.Errorf("UID %q without a Node, want the one before", i.UID())
	}
	status, node.UID, node.Annotations = http.StatusOK, "new", map[string]string{contract.AnnGiveUp: "new"}
	node.Labels = map[string]string{corev1.LabelHostname: "host-b"}
	i.ReadAgain(t.Context(), 0)
	if i.UID() != "new" || i.GiveUp() != "new" || i.Hostname() != "host-b" {
		t.Errorf("UID %q, annotation %q, hostname %q, want new, new, host-b", i.UID(), i.GiveUp(), i.Hostname())
	}
}
