package nodechoice

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// A process that ends right after it gave a claim back records the event, and one that goes on waits
// for a slow API server.
func TestGivenBackIsRecorded(t *testing.T) {
	for name, row := range map[string]struct {
		ends bool
		slow time.Duration
	}{
		"at the end":      {ends: true},
		"slow API server": {slow: recordWithin + 200*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "5",
				Annotations: map[string]string{contract.AnnSelectedNode: "node-01"}}}
			recorded := 0
			client := apitest.Client(t, func(r *http.Request) (int, any) {
				time.Sleep(row.slow)
				if r.Context().Err() == nil {
					recorded++
				}
				return http.StatusCreated, &corev1.Event{}
			})
			recorder := events.NewOf(client, corev1.EventSource{Component: "test"})
			defer recorder.Close()
			if row.ends {
				end()
			}
			note(ctx, recorder, claim, "node-01", "does not exist")
			if recorded != 1 {
				t.Errorf("%d events, want one", recorded)
			}
		})
	}
}
