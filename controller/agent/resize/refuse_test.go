package resize

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// While another agent has the pool, it may serve the claim: the claim gets an event after two
// minutes, and so does its next growth.
func TestGrowthInAPoolOfAnotherAgent(t *testing.T) {
	pool := classtest.Pools(t).Named("legacy")
	synctest.Test(t, func(t *testing.T) {
		claim, pv := pair("10Mi", "5Mi", "5Mi")
		client := fake.NewClientset(claim, pv)
		recorder := events.New(client, "node-01")
		defer recorder.Close()
		r, err := New(Config{Client: apitest.Listing(client), Node: "node-01", PVs: inPool{pool}, Events: recorder})
		if err != nil {
			t.Fatal(err)
		}
		defer r.queue.ShutDown()
		r.held = claims.NewPatience()
		for i, request := range []string{"10Mi", "10Mi", "10Mi", "20Mi", "20Mi", "20Mi"} {
			claim.Spec.Resources.Requests = storage(request)
			held := &fault.HeldError{By: "another agent"}
			if err := r.refuse(t.Context(), "ns/data", &target{claim: claim, pv: pv, pool: pool}, held); (err == nil) != (i%3 == 2) {
				t.Errorf("minute %d: %v", i, err)
			}
			time.Sleep(time.Minute)
		}
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Errorf("%d events, %v", len(list.Items), err)
		}
	})
}
