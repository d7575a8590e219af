package suite

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The objects of an older operator are changed in place, and what one agent for both kinds of
// volumes replaces is removed: for each kind of resource that it has.
func TestOperatorTakesOver(t *testing.T) {
	t.Parallel()
	e, audit := audited(t)
	o := &operated{Scene: e.Scene(t), audit: audit, broken: &atomic.Value{}}
	o.nodes = []harness.Node{o.Node("01"), o.Node("02")}
	o.breaks("")
	o.Kubelets(func(node string) bool { return node == o.broken.Load() })
	define(o.Scene)
	shared := map[string]any{"name": "shared", "path": "/srv/shared", "overlayClassName": "network", "pvcTemplate": map[string]any{
		"accessModes": []any{"ReadWriteMany"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}
	for _, row := range []olderInstallation{
		{"path", map[string]any{"pathConfig": map[string]any{"path": "/var/hpvolumes"}},
			"TFF", "Complete", "Application Available", []string{"PROVISION=hostpath,csi", "PV_DIR=/var/hpvolumes", "USE_NAMING_PREFIX=false"}, 7, 1},
		{"path with names as prefixes", map[string]any{"pathConfig": map[string]any{"path": "/var/hpvolumes", "useNamingPrefix": true}},
			"TFF", "Complete", "Application Available", []string{"PROVISION=hostpath,csi", "PV_DIR=/var/hpvolumes", "USE_NAMING_PREFIX=true"}, 7, 1},
		{"pools", pools("local=/srv/local", "other=/srv/other"), "TFF", "Complete", "Application Available",
			[]string{"PROVISION=csi", `DATADIR=[{"name":"local","path":"/srv/local/csi"},{"name":"other","path":"/srv/other/csi"}]`}, 5, 2},
		{"snapshots", map[string]any{"featureGates": []any{"Snapshotting"}, "storagePools": []any{
			map[string]any{"name": "local", "path": "/srv/local", "snapshotProvider": "reflink"}}},
			"TFF", "FeatureUnavailable", "snapshots are not offered yet", []string{`DATADIR=[{"name":"local","path":"/srv/local/csi"}]`}, 5, 1},
		{"shared pool", map[string]any{"storagePools": []any{shared, map[string]any{"name": "local", "path": "/srv/local"}}},
			"TTT", "SharedPoolUnsupported", "pool shared: nodes cannot share a pool", []string{`DATADIR=[{"name":"local","path":"/srv/local/csi"}]`}, 5, 1},
	} {
		if !t.Run(row.name, func(t *testing.T) { o.in(t).takesOver(row) }) {
			t.FailNow()
		}
	}
	if !testing.Short() { // two minutes
		t.Run("a rollout that stands still", func(t *testing.T) { o.in(t).standsStill() })
	}
	operatorRole.note(o.Scene, audit)
}

// standsStill has a change with which an agent does not start, and then a pod that Kubernetes
// refuses to create: the rollout waits for both. It is here because it takes two minutes, which
// TestOperator does not have.
func (o *operated) standsStill() {
	o.Helper()
	o.create(serving, pools("local=/srv/local"))
	operator := o.Operator() // ends with the row
	o.healthy()
	slow, refused := o.nodes[0].Name, o.nodes[1].Name
	o.breaks(slow)
	o.change(`{"spec":{"imagePullPolicy":"Always"}}`)
	o.await("TTF", "RolloutStarted", "agents are replaced after a change")
	o.Eventually("the new pod", func() error {
		pods, err := o.Client.CoreV1().Pods(harness.Namespace).List(o.Context(), onNode(slow))
		if err == nil && (len(pods.Items) != 1 || pods.Items[0].Spec.Containers[0].ImagePullPolicy != corev1.PullAlways) {
			err = fmt.Errorf("%d pods, not the new one", len(pods.Items))
		}
		return err
	})
	o.enforce("restricted") // agents need hostPath volumes, which it forbids
	defer o.enforce("privileged")
	err := o.Client.CoreV1().Pods(harness.Namespace).DeleteCollection(o.Context(), metav1.DeleteOptions{}, onNode(refused))
	if err != nil {
		o.Fatal(err)
	}
	o.Eventually("failed", func() error { // the time that an agent has to start, and more
		return o.is(serving, "FFT", "Degraded", "0 of 2 agents are ready; not ready: "+slow+"; without a pod: 1, see the events of DaemonSet "+daemons)
	})
	o.report("v0.25.0")
	o.await("TTF", "UpgradeStarted", "which stands still: 0 of 2 agents are ready")
	o.enforce("privileged")
	o.breaks("")
	o.Eventually("the pod that was refused", func() error { return o.podsReady(daemons) }) // Kubernetes waits longer after each refusal
	o.healthy()
	operator.Stop()
}

// enforce sets the pod security level of the agents' namespace.
func (o *operated) enforce(level string) {
	o.Helper()
	patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`
	if _, err := o.Client.CoreV1().Namespaces().Patch(o.Context(), harness.Namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
}

// olderInstallation is a resource that an older operator served.
type olderInstallation struct {
	name                    string
	spec                    map[string]any
	statuses, reason, words string   // of the conditions after it was taken over
	variables               []string // of our agents
	count, directories      int      // of all variables, and of directories of volumes
}

// takesOver starts the operator over the objects of an older one, and removes them at the end.
func (o *operated) takesOver(row olderInstallation) {
	o.Helper()
	o.create(serving, row.spec)
	o.report("v0.25.0")
	o.apply("testdata/older-operator.yaml")
	for _, name := range []string{"hostpath-provisioner", daemons} {
		o.Eventually(name+" ready", func() error { return o.podsReady(name) })
	}
	driver, ds := o.get(driversKind, harness.Driver).GetUID(), o.get(daemonsKind, daemons).GetUID()
	operator := o.Operator() // ends with the row
	o.Eventually("version", func() error { return o.observed("unknown") })
	o.await(row.statuses, row.reason, row.words)
	if o.get(driversKind, harness.Driver).GetUID() != driver || o.get(daemonsKind, daemons).GetUID() != ds {
		o.Error("the CSIDriver or the DaemonSet is another object")
	}
	wantOnlyOurs(o.TB.(*testing.T), o.agentPod(), row.count, row.directories)
	if err := o.hasVariables(row.variables...); err != nil {
		o.Error(err)
	}
	wantOurWebhook(o)
	if rules, _, _ := unstructured.NestedSlice(o.get("rbac.authorization.k8s.io/v1/clusterroles", agents).Object, "rules"); len(rules) != 9 {
		o.Errorf("%d rules: %v", len(rules), rules)
	}
	for kind, name := range map[string]string{"apps/v1/daemonsets": "hostpath-provisioner", "/v1/serviceaccounts": harness.Account,
		"rbac.authorization.k8s.io/v1/clusterroles": "hostpath-provisioner", "rbac.authorization.k8s.io/v1/clusterrolebindings": "hostpath-provisioner"} {
		if _, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			o.Errorf("%s %s: %v, want it gone", kind, name, err)
		}
	}
	if err := resources(o.Scene).Delete(o.Context(), serving, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Eventually("gone", o.removed)
	operator.Stop()
}

// wantOurWebhook checks that the older webhook, which refuses every change, is the operator's.
func wantOurWebhook(o *operated) {
	o.Helper()
	hooks, _, _ := unstructured.NestedSlice(o.get(webhookKind, webhookName).Object, "webhooks")
	if len(hooks) != 1 || hooks[0].(map[string]any)["failurePolicy"] != "Ignore" {
		o.Errorf("webhooks %v", hooks)
	}
}

// wantOnlyOurs checks that no container, variable, volume or toleration of the older DaemonSet is
// left: the agents have that many variables and directories of volumes.
func wantOnlyOurs(t *testing.T, pod corev1.PodSpec, variables, directories int) {
	t.Helper()
	if len(pod.Containers) != 1 || len(pod.Volumes) != 3+directories || len(pod.Tolerations) != 0 {
		t.Fatalf("pod %+v", pod)
	}
	agent := pod.Containers[0]
	for _, v := range agent.Env {
		if v.Name == "CSI_ENDPOINT" || v.Name == "VERSION" {
			t.Errorf("variable %v", v)
		}
	}
	if len(agent.Env) != variables || len(agent.Ports) != 2 || len(agent.VolumeMounts) != 3+directories {
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
