package suite

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// repaired is the time in which the operator repairs what others changed. It takes less than a
// second, but the machine is shared with the rest of the suite.
const repaired = 20 * time.Second

// operated is a control plane with the operator, two nodes, and one resource.
type operated struct {
	*harness.Scene
	operator *harness.Operator
	audit    string
	nodes    []harness.Node

	broken *atomic.Value // the name of the node whose agent is not ready
}

// serving is the name of the resource.
const serving = "hostpath-provisioner"

func operate(t *testing.T) *operated {
	t.Helper()
	e, audit := audited(t)
	o := &operated{Scene: e.Scene(t), audit: audit, broken: &atomic.Value{}}
	o.breaks("")
	o.nodes = []harness.Node{o.Node("01"), o.Node("02")}
	o.Kubelets(func(node string) bool { return node == o.broken.Load() })
	o.operator = o.Operator()
	return o
}

// breaks makes the agent of that node not ready, "" none.
func (o *operated) breaks(node string) { o.broken.Store(node) }

// in returns the same cluster for a part of the test.
func (o *operated) in(t *testing.T) *operated {
	scene := *o.Scene
	scene.TB = t
	part := *o
	part.Scene = &scene
	return &part
}

// create creates a resource.
func (o *operated) create(name string, spec map[string]any) *unstructured.Unstructured {
	o.Helper()
	made, err := resources(o.Scene).Create(o.Context(), installation(name, spec), metav1.CreateOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return made
}

// change merges a change into the resource.
func (o *operated) change(patch string) {
	o.Helper()
	if _, err := resources(o.Scene).Patch(o.Context(), serving, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
}

// is returns nil if the resource's conditions Available, Progressing and Degraded have those
// statuses, such as TFF, and one of them the reason and the words.
func (o *operated) is(name, statuses, reason, words string) error {
	cr, err := resources(o.Scene).Get(o.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	got, found := map[string]string{}, false
	conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		got[c["type"].(string)] = c["status"].(string)[:1]
		message, _ := c["message"].(string)
		found = found || c["reason"] == reason && strings.Contains(message, words)
	}
	if text := got["Available"] + got["Progressing"] + got["Degraded"]; text != statuses || !found {
		return fmt.Errorf("conditions %s, want %s with reason %s and words %q: %v", text, statuses, reason, words, conditions)
	}
	return nil
}

func (o *operated) await(statuses, reason, words string) {
	o.Helper()
	o.Eventually(reason, func() error { return o.is(serving, statuses, reason, words) })
}

// healthy waits until Kubernetes has rolled the agents out and the resource is Complete. The resource
// alone does not suffice, because its status may be from before the last change: a test that then
// deletes the DaemonSet does so while Kubernetes creates its pods. Kubernetes may wait for these pods
// for five minutes, and meanwhile creates none for the next DaemonSet of that name.
func (o *operated) healthy() {
	o.Helper()
	o.Eventually("healthy", func() error {
		if err := o.rolledOut(); err != nil {
			return err
		}
		return o.is(serving, "TFF", "Complete", "Application Available")
	})
}

// rolledOut returns nil if every pod of the agents' DaemonSet has its current template and is ready,
// and none of an older template is left. Where the operator has the agents stay, by the strategy
// OnDelete, those of an older template count as well.
func (o *operated) rolledOut() error {
	ds, err := o.Client.AppsV1().DaemonSets(harness.Namespace).Get(o.Context(), daemons, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := o.Client.CoreV1().Pods(harness.Namespace).List(o.Context(),
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(ds.Spec.Selector)})
	if err != nil {
		return err
	}
	n := ds.Status
	done := n.UpdatedNumberScheduled
	if ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		done = n.CurrentNumberScheduled
	}
	if n.ObservedGeneration != ds.Generation || done != n.DesiredNumberScheduled ||
		n.NumberReady != n.DesiredNumberScheduled || len(pods.Items) != int(n.DesiredNumberScheduled) {
		return fmt.Errorf("DaemonSet of generation %d has %d pods: %+v", ds.Generation, len(pods.Items), n)
	}
	return nil
}

// TestOperator has the rows of the existing operator's tests under their names, and more.
func TestOperator(t *testing.T) {
	t.Parallel()
	o := operate(t)
	for _, row := range []struct {
		name string
		run  func(*testing.T, *operated)
	}{
		{"TestOperatorEventsInstall", installs},
		{"TestReconcileChangeOnDaemonSet/csi driver ds modify", daemonSetModified},
		{"TestReconcileChangeOnDaemonSet/csi driver ds delete", deleted("apps/v1/daemonsets", "hostpath-provisioner-csi")},
		{"TestReconcileChangeOnServiceAccount/csi driver sa modify", accountModified},
		{"TestReconcileChangeOnServiceAccount/csi driver sa delete", deleted("/v1/serviceaccounts", "hostpath-provisioner-admin-csi")},
		{"TestReconcileChangeOnClusterRole/csi driver", modified("rbac.authorization.k8s.io/v1/clusterroles", "rules")},
		{"TestReconcileChangeOnClusterRole/delete", deleted("rbac.authorization.k8s.io/v1/clusterroles", "hostpath-provisioner-admin-csi")},
		{"TestReconcileChangeOnClusterRoleBinding/csi driver", modified("rbac.authorization.k8s.io/v1/clusterrolebindings", "subjects")},
		{"TestReconcileChangeOnClusterRoleBinding/delete", deleted("rbac.authorization.k8s.io/v1/clusterrolebindings", "hostpath-provisioner-admin-csi")},
		{"TestReconcileRoleBinding", modified("rbac.authorization.k8s.io/v1/rolebindings", "subjects")},
		{"TestReconcileRole", modified("rbac.authorization.k8s.io/v1/roles", "rules")},
		{"Test_CSIDriver/delete CSI driver", deleted("storage.k8s.io/v1/csidrivers", harness.Driver)},
		{"TestNodeSelector", placed},
		{"template nodes", templateNodes},
		{"webhook", webhookDecides},
		{"certificate", certificateRenewed},
		{"users' metadata stays", metadataStays},
		{"second resource", second},
		{"not ready", notReady},
		{"health", health},
		{"claims that wait", claimsWait},
		{"upgrade", upgrades},
		{"path", servesPath},
		{"settings", tunes},
		{"path to pools", switched},
		{"TestPrometheusMetrics/HPP CR ready", measured},
		{"monitoring", monitored},
		{"metrics for tokens", measuredForTokens},
		{"TestPrometheusMetrics/HPP alert rules", alertRules},
		{"TestPrometheusMetrics/Operator Up", fires("HPPOperatorDown")},
		{"TestPrometheusMetrics/Operator Down", fires("HPPOperatorDown without a pod")},
		{"TestPrometheusMetrics/HPP pool sharing path with OS", fires("HPPSharingPoolPathWithOS")},
		{"TestPrometheusAlerts/HPPOperatorDown", fires("HPPOperatorDown")},
		{"TestPrometheusAlerts/HPPNotReady", fires("HPPNotReady")},
		{"TestPrometheusAlerts/HPPSharingPoolPathWithOS", fires("HPPSharingPoolPathWithOS")},
		{"TestSCExists", sccExists},
		{"TLS profile", followsProfile},
		{"quiet", quiet},
		{"delete", deletes},
		{"killed", operatorKilled},
	} {
		if testing.Short() && onlyInFull(row.name) {
			continue
		}
		if !t.Run(row.name, func(t *testing.T) { row.run(t, o.in(t)) }) {
			t.FailNow()
		}
	}
	operatorRole.note(o.Scene, o.audit)
}

// onlyInFull reports whether a row of TestOperator is left out with -short: monitoring, and a
// minute in which nothing changes.
func onlyInFull(row string) bool {
	monitoring := strings.HasPrefix(row, "TestPrometheus") && row != "TestPrometheusMetrics/HPP CR ready"
	return monitoring || row == "monitoring" || row == "quiet"
}

// objects is a client of one kind, GROUP/VERSION/RESOURCE, of cluster-scoped objects or those of
// the agents' namespace.
func objects(s *harness.Scene, kind string, namespace ...string) dynamic.ResourceInterface {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Plane.Kubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{} // older values warn
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	parts := strings.Split(kind, "/")
	of := client.Resource(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	if len(namespace) > 0 {
		return of.Namespace(namespace[0])
	}
	return of
}

// defineAs applies a definition of HostPathProvisioner and waits until it is served.
func defineAs(s *harness.Scene, file string) {
	s.Helper()
	out, err := exec.Command(s.Plane.Binaries().Path("kubectl"), "apply", "--server-side", "--force-conflicts", "-f", file,
		"--kubeconfig", s.Plane.Kubeconfig()).CombinedOutput()
	if err != nil {
		s.Fatalf("apply %s: %v\n%s", file, err, out)
	}
	s.Eventually("HostPathProvisioner served", func() error {
		_, err := resources(s).List(s.Context(), metav1.ListOptions{})
		return err
	})
}

// wants returns nil if the text has all the words.
func wants(err error, text string, words []string) error {
	for _, w := range words {
		if !strings.Contains(text, w) {
			err = errors.Join(err, fmt.Errorf("no %q in %s", w, text))
		}
	}
	return err
}
