package suite

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The objects of an older operator are changed in place, and what one agent for both kinds of volumes replaces is removed.
func TestOperatorTakesOver(t *testing.T) {
	t.Parallel()
	e := ownPlane(t)
	o := &operated{Scene: e.Scene(t), broken: &atomic.Value{}}
	o.nodes = []harness.Node{o.Node("01"), o.Node("02")}
	o.breaks("")
	o.Kubelets(func(string) bool { return false })
	define(o.Scene)
	o.create(serving, map[string]any{"pathConfig": map[string]any{"path": "/var/hpvolumes"}})
	o.report("v0.25.0")
	o.apply("testdata/older-operator.yaml")
	for _, name := range []string{"hostpath-provisioner", daemons} {
		o.Eventually(time.Minute, name+" ready", func() error { return o.podsReady(name) })
	}
	driver, ds := o.get(driversKind, harness.Driver).GetUID(), o.get(daemonsKind, daemons).GetUID()
	o.operator = o.Operator()
	o.Eventually(time.Minute, "version", func() error { return o.observed("unknown") })
	o.healthy()
	if o.get(driversKind, harness.Driver).GetUID() != driver || o.get(daemonsKind, daemons).GetUID() != ds {
		t.Error("the CSIDriver or the DaemonSet is another object")
	}
	wantOnlyOurs(t, o.agentPod())
	wantOurWebhook(o)
	if rules, _, _ := unstructured.NestedSlice(o.get("rbac.authorization.k8s.io/v1/clusterroles", agents).Object, "rules"); len(rules) != 7 {
		t.Errorf("%d rules: %v", len(rules), rules)
	}
	for kind, name := range map[string]string{"apps/v1/daemonsets": "hostpath-provisioner", "/v1/serviceaccounts": harness.Account,
		"rbac.authorization.k8s.io/v1/clusterroles": "hostpath-provisioner", "rbac.authorization.k8s.io/v1/clusterrolebindings": "hostpath-provisioner"} {
		if _, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: %v, want it gone", kind, name, err)
		}
	}
}

// wantOurWebhook checks that the older webhook, which refuses every change, is the operator's.
func wantOurWebhook(o *operated) {
	o.Helper()
	hooks, _, _ := unstructured.NestedSlice(o.get(webhookKind, webhookName).Object, "webhooks")
	if len(hooks) != 1 || hooks[0].(map[string]any)["failurePolicy"] != "Ignore" {
		o.Errorf("webhooks %v", hooks)
	}
}

// wantOnlyOurs checks that no container, variable, volume or toleration of the older DaemonSet is left.
func wantOnlyOurs(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if len(pod.Containers) != 1 || len(pod.Volumes) != 4 || len(pod.Tolerations) != 0 {
		t.Fatalf("pod %+v", pod)
	}
	agent := pod.Containers[0]
	for _, v := range agent.Env {
		if v.Name == "CSI_ENDPOINT" || v.Name == "VERSION" {
			t.Errorf("variable %v", v)
		}
	}
	if len(agent.Env) != 7 || len(agent.Ports) != 2 || len(agent.VolumeMounts) != 4 {
		t.Errorf("container %+v", agent)
	}
}

// apply applies a file as an older operator of the same name would have written its objects.
func (o *operated) apply(file string) {
	o.Helper()
	out, err := exec.Command(o.Plane.Binaries().Path("kubectl"), "--kubeconfig", o.Plane.Kubeconfig(), "apply",
		"--field-manager=hostpath-provisioner-operator", "-f", file).CombinedOutput()
	if err != nil {
		o.Fatalf("%v\n%s", err, out)
	}
}

// report sets the versions in the status, as an operator of that version would have.
func (o *operated) report(version string) {
	o.Helper()
	patch := fmt.Appendf(nil, `{"status":{"observedVersion":%q,"operatorVersion":%q,"targetVersion":%q}}`, version, version, version)
	if _, err := resources(o.Scene).Patch(o.Context(), serving, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		o.Fatal(err)
	}
}

// podsReady returns nil if a DaemonSet's pods are ready on all nodes.
func (o *operated) podsReady(name string) error {
	ds, err := o.Client.AppsV1().DaemonSets(harness.Namespace).Get(o.Context(), name, metav1.GetOptions{})
	if err == nil && int(ds.Status.NumberReady) != len(o.nodes) {
		err = fmt.Errorf("%d of %d ready", ds.Status.NumberReady, len(o.nodes))
	}
	return err
}
