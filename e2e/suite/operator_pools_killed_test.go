package suite

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// poolsKilled has the operator killed at each of its writes for a pool that comes and goes, before
// the API server gets it and after.
func poolsKilled(o *onClaims) {
	for _, node := range o.nodes { // one was not ready
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		if _, err := o.Client.CoreV1().Nodes().Patch(o.Context(), node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			o.Fatal(err)
		}
	}
	o.back("killed")
	gate := newGate(o.Scene, o.operator, "/persistentvolumeclaims", "/deployments", "/jobs")
	plain := map[string]any{"name": "plain", "path": "/srv/plain"}
	o.create(serving, map[string]any{"storagePools": []any{plain, poolOn("killed", backing, nil)}})
	came := gate.killedUntil(func() error { return o.states("killed Ready 2/2 [Bound Bound], plain Ready 2/2 []") }, nil)
	claims := map[string]types.UID{}
	for _, node := range o.nodes {
		claims[on("killed", node)] = o.get("/v1/persistentvolumeclaims", on("killed", node)).GetUID()
	}
	o.setPools(plain)
	went := gate.killedUntil(func() error {
		left, err := o.kind("apps/v1/deployments").List(o.Context(), metav1.ListOptions{LabelSelector: "kubevirt.io.hostpath-provisioner/storagePool"})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d Deployments are left", len(left.Items))
		}
		return err
	}, nil)
	// A claim and a Deployment for each node; then the end of the pod, a Job, and the deletion of
	// the Deployment.
	if len(came) < 2*2*2 || len(went) < 2*2*3 {
		o.Errorf("killed at %q and %q", came, went)
	}
	gate.opens()
	o.healthy()
	for name, uid := range claims {
		if now := o.get("/v1/persistentvolumeclaims", name).GetUID(); now != uid {
			o.Errorf("claim %s has UID %s, before %s", name, now, uid)
		}
	}
	o.Eventually("no Jobs", func() error {
		jobs, err := o.Client.BatchV1().Jobs(harness.Namespace).List(o.Context(), metav1.ListOptions{})
		if err == nil && len(jobs.Items) > 0 {
			err = fmt.Errorf("%+v", jobs.Items[0].Status)
		}
		return err
	})
}
