package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// templateChanges has a larger request, which claims follow, and what claims cannot become.
func templateChanges(o *onClaims) {
	request := func(size string) func(map[string]any) {
		return func(template map[string]any) {
			template["resources"] = map[string]any{"requests": map[string]any{"storage": size}}
		}
	}
	o.setPools(poolOn("good", backing, twoGi))
	o.Eventually("requests raised", func() error {
		for _, node := range o.nodes {
			size, _, _ := unstructured.NestedString(o.get("/v1/persistentvolumeclaims", on("good", node)).Object, "spec", "resources", "requests", "storage")
			if size != "2Gi" {
				return errors.New(size)
			}
		}
		return nil
	})
	o.healthy()
	served := map[string]any{"storagePools": []any{poolOn("good", backing, twoGi)}}
	for words, pool := range map[string]map[string]any{
		"claims do not shrink": poolOn("good", backing, request("1Gi")),
		"pvcTemplate has another storageClassName than claim " + on("good", o.nodes[0]): poolOn("good", "other", twoGi),
		"pvcTemplate has another accessModes than claim": poolOn("good", backing, func(template map[string]any) {
			twoGi(template)
			template["accessModes"] = []any{"ReadWriteOncePod"}
		}),
	} {
		o.wantReviewed(served, map[string]any{"storagePools": []any{pool}}, words)
		o.setPools(pool) // the API server has no route to the webhook
		o.await("TTT", "StoragePoolNotReady", words)
		o.Eventually("served as before", func() error { return o.states("good Ready 2/2 [Bound Bound]") })
	}
	o.wantReviewed(served, map[string]any{"storagePools": []any{poolOn("good", backing, request("3Gi")), poolOn("new", "other", nil)}}, "")
	o.setPools(poolOn("good", backing, twoGi))
	o.healthy()
}

// wantReviewed checks that the webhook refuses the change with the words, or allows it if there are
// none.
func (o *onClaims) wantReviewed(before, now map[string]any, words string) {
	o.Helper()
	answer, err := o.review(before, installation(serving, now))
	if err != nil || answer.Allowed != (words == "") || !strings.Contains(answer.Status.Message, words) {
		o.Errorf("%+v %v, want words %q", answer, err, words)
	}
}

// holderDeleted has a Deployment and a pod of another deleted.
func holderDeleted(o *onClaims) {
	before := o.holder(o.nodes[0])
	if err := o.Client.AppsV1().Deployments(harness.Namespace).Delete(o.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Within(repaired, "created again", func() error {
		d, err := o.Client.AppsV1().Deployments(harness.Namespace).Get(o.Context(), before.Name, metav1.GetOptions{})
		if err == nil && d.UID == before.UID {
			err = errors.New("it is still the Deployment before")
		}
		return err
	})
	o.breaks(o.nodes[0].Name) // the pod of the holder too
	o.Eventually("mounting", func() error { return o.states("good Mounting 1/2 [Bound Bound]") })
	o.breaks("")
	o.healthy()
}

// poolInUse has a pool that is removed from the resource while a PV names it.
func poolInUse(o *onClaims) {
	o.pv("of-good", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-good",
		VolumeAttributes: map[string]string{harness.StoragePool: "good"}}})
	plain := map[string]any{"name": "plain", "path": "/srv/plain"}
	o.setPools(plain)
	o.await("TTF", "PoolInUse", "pool good stays at /srv/good, in use by 1 PV; delete them first")
	if *o.holder(o.nodes[0]).Spec.Replicas != 1 {
		o.Error("the holder is ended")
	}
	o.setPools(plain, poolOn("good", backing, twoGi))
	o.noPV("of-good")
	o.healthy()
}

// nodeLeaves has a node without an agent: its mount is busy, then goes, and its claim stays.
func nodeLeaves(o *onClaims) {
	o.busy.Store("hostpath-provisioner: not unmounted within 1m0s: busy: /srv/good/csi is in use: process 7 (sh)")
	defer o.busy.Store("")
	node, left := o.nodes[0], o.nodes[1]
	o.change(`{"spec":{"workload":{"nodeSelector":{"kubernetes.io/hostname":"` + node.Hostname + `"}}}}`)
	o.await("TTF", "PoolUnmounting", "/srv/good/csi on node "+left.Name+": hostpath-provisioner: not unmounted within 1m0s: busy: /srv/good/csi is in use: process 7 (sh)")
	if *o.holder(left).Spec.Replicas != 0 || *o.holder(node).Spec.Replicas != 1 {
		o.Error("the wrong holder is ended")
	}
	o.Eventually("event", func() error { return o.told("process 7 (sh); trying again") })
	o.busy.Store("")
	o.gone("apps/v1/deployments", on("good", left))
	o.get("/v1/persistentvolumeclaims", on("good", left))
	o.healthy()
	o.change(`{"spec":{"workload":{"nodeSelector":null}}}`)
	o.Eventually("both nodes", func() error { return o.states("good Ready 2/2 [Bound Bound], plain Ready 2/2 []") })
	o.healthy()
}

// poolMoves has a pool at another path: it is unmounted where it was on each node, and its claims
// stay the same.
func poolMoves(o *onClaims) {
	holders, claims := map[string]types.UID{}, map[string]types.UID{}
	for _, node := range o.nodes {
		holders[node.Name], claims[node.Name] = o.holder(node).UID, o.get("/v1/persistentvolumeclaims", on("good", node)).GetUID()
	}
	moved := poolOn("good", backing, twoGi)
	moved["path"] = "/srv/moved"
	o.setPools(moved)
	for _, node := range o.nodes {
		o.Eventually("moved on "+node.Name, func() error {
			d, err := o.Client.AppsV1().Deployments(harness.Namespace).Get(o.Context(), on("good", node), metav1.GetOptions{})
			if err == nil && (d.UID == holders[node.Name] || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--path=/srv/moved/csi")) {
				err = fmt.Errorf("arguments %q; %w", d.Spec.Template.Spec.Containers[0].Args, o.is(serving, "", "", ""))
			}
			return err
		})
		o.Eventually("told of "+node.Name, func() error { return o.told("unmounted /srv/good/csi on node " + node.Name) })
		if now := o.get("/v1/persistentvolumeclaims", on("good", node)).GetUID(); now != claims[node.Name] {
			o.Errorf("node %s has another claim", node.Name)
		}
	}
	o.healthy()
}

// poolsDeleted has the resource deleted, with a node that does not answer.
func poolsDeleted(o *onClaims) {
	dead := o.nodes[0].Name
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if _, err := o.Client.CoreV1().Nodes().Patch(o.Context(), dead, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		o.Fatal(err)
	}
	if err := resources(o.Scene).Delete(o.Context(), serving, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.gone("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", serving)
	for _, node := range o.nodes {
		o.gone("apps/v1/deployments", on("good", node))
		o.get("/v1/persistentvolumeclaims", on("good", node))
	}
	for _, words := range []string{"node " + dead + " is not ready: /srv/moved/csi stays mounted there until the node restarts", "unmounted /srv/moved/csi on node " + o.nodes[1].Name} {
		o.Eventually(words, func() error { return o.told(words) })
	}
}
