package nodechoice

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// A process that ends right after it gave a claim back records the event.
func TestGivenBackAtTheEnd(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "5",
		Annotations: map[string]string{contract.AnnSelectedNode: "node-01"}}}
	recorded := 0
	client := apitest.Client(t, func(r *http.Request) (int, any) {
		if r.Method == http.MethodPost {
			recorded++
			return http.StatusCreated, &corev1.Event{}
		}
		return http.StatusOK, claim
	})
	recorder := events.NewOf(client, corev1.EventSource{Component: "test"})
	defer recorder.Close()
	end()
	note(ctx, recorder, claim, "node-01", "does not exist")
	if recorded != 1 {
		t.Errorf("%d events, want one", recorded)
	}
}
