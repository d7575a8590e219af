package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// While the local-path provisioner itself runs, new claims wait, and what is there is served. It
// runs in a namespace of the setting; for the agent of the other node, which has the default, a
// tenant has a Deployment of that name.
func TestLocalPathWaitsForTheOriginal(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node, second := s.Node("01"), s.Node("02")
	other := s.Agent(second, localPathOptionsIn(s, s.Path("config-of-the-other", "config.json"), second.Pool))
	o := localPathOptions(s, node.Pool)
	o.Env = append(o.Env, "HPP_LOCAL_PATH_NAMESPACES="+s.Namespace)
	a := s.Agent(node, o)
	class := localPathClass(s, "class", nil)
	before := s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
	pv := s.Bound(before)

	run := func(replicas int32) {
		t.Helper()
		_, err := s.Client.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "local-path-provisioner", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{"app": "local-path-provisioner"}
	_, err := s.Client.AppsV1().Deployments(s.Namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "local-path-provisioner"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "local-path-provisioner", Image: "registry.invalid/local-path-provisioner"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone := func() {
		_ = s.Client.AppsV1().Deployments(s.Namespace).Delete(s.Context(), "local-path-provisioner", metav1.DeleteOptions{})
	}
	defer gone()
	runs := "local-path provisioner runs too, as Deployment " + s.Namespace
	a.AwaitUnready(runs)
	s.Eventually("said", func() error { return nodeSays(s, a.Node, "OriginalRunning", "scale it to 0 or delete it") })
	s.Eventually("said elsewhere", func() error { return nodeSays(s, other.Node, "OriginalElsewhere", "--local-path-namespaces") })
	s.Bound(s.Create(harness.Claim{Class: class, Selected: other.Node.Name}))
	other.AwaitReady()
	waits := s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
	s.AwaitWarning(a, waits.UID, harness.ReasonFailed, "local-path provisioner runs too")
	if err := s.IsPending(waits); err != nil {
		t.Error(err)
	}
	ask(s, before, "25Mi")
	s.Eventually("grown", func() error { return hasBytes(s, a, before, localPathDirectory(before), 25<<20) })
	s.Delete(before)
	s.Gone(pv.Name)

	run(0)
	s.Bound(waits)
	run(1)
	a.AwaitUnready(runs) // its watch tells it; a claim made before that is served
	again := s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
	s.Eventually("waits again", func() error { return s.Warned(again.UID, harness.ReasonFailed, "runs too") })
	gone()
	s.Bound(again)
	a.AwaitReady()
	waitsForHelper(s, a, class)
}

// waitsForHelper checks that a helper pod keeps new claims waiting until it has ended, without a
// Deployment of that name.
func waitsForHelper(s *harness.Scene, a *harness.Agent, class string) {
	s.Helper()
	helper := func(name string, node harness.Node) *corev1.Pod {
		s.Helper()
		made, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName:   node.Name,
				Containers: []corev1.Container{{Name: "local-path-create", Image: "registry.invalid/busybox"}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: node.Pool},
				}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		return made
	}
	helper("helper-pod-create-pvc-elsewhere", s.Node("03"))
	here := helper("helper-pod-create-pvc-here", a.Node)
	a.AwaitUnready("its helper pod " + s.Namespace + "/" + here.Name + " is on this node")
	waits := s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
	s.AwaitWarning(a, waits.UID, harness.ReasonFailed, "its helper pod")
	if err := s.IsPending(waits); err != nil {
		s.Error(err)
	}
	here.Status.Phase = corev1.PodSucceeded
	if _, err := s.Client.CoreV1().Pods(s.Namespace).UpdateStatus(s.Context(), here, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Bound(waits)
	a.AwaitReady()
}

// Both served the claim: the PV of the local-path provisioner was saved before the agent's. Of the
// agent's empty directory nothing stays; but if both have the same directory, the volume is that
// PV's.
func TestLocalPathBothServed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		killed bool // the agent, before it saved its PV; if not, the API server refuses that PV until the other is there
		same   bool // the PV names the agent's directory, and a pod has written into it
	}{{"another directory", true, false}, {"the same directory", true, true}, {"another directory, not killed", false, false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bothServed(t, row.killed, row.same)
		})
	}
}

func bothServed(t *testing.T, killed, same bool) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	second := s.Path("pools", "second")
	o := localPathOptions(s, node.Pool, second)
	if killed {
		o.Program = built(t, env.Faulty)
	}
	a := s.Later(node, o)
	claim := s.Create(harness.Claim{Name: "data", Class: localPathClass(s, "class", nil)})
	ours := filepath.Join(node.Pool, localPathDirectory(claim))
	path := filepath.Join(second, localPathDirectory(claim))
	if same {
		path = ours
	}
	allow := func() {}
	if killed {
		a.RestartWith("HPP_KILL_AT=create.sync")
		selectNode(s, claim, node)
		s.Eventually("killed", func() error {
			if a.Alive() {
				return errors.New("it runs")
			}
			return nil
		})
	} else {
		a.Restart()
		a.AwaitReady()
		allow = refusePV(s, harness.PVName(claim))
		defer allow()
		selectNode(s, claim, node)
		s.AwaitWarning(a, claim.UID, harness.ReasonFailed, "its PV cannot be saved")
	}
	if err := harness.Exists(ours); err != nil {
		t.Fatal(err)
	}
	saveTheirs(s, a, claim, path)
	allow()
	if same {
		s.Write(path, "data", []byte("precious"))
	}
	if killed {
		a.Restart()
		a.AwaitReady()
	}
	s.Eventually("bound", func() error { return s.IsBound(claim) })
	s.Eventually("the volume is that of the PV", func() error {
		if !same {
			if err := harness.Missing(ours); err != nil {
				return err
			}
		}
		pv := s.PV(harness.PVName(claim))
		if pv.Spec.HostPath.Path != path || pv.Annotations[harness.AnnPool] == "" {
			return s.NotYet(pv.UID, "source %+v, annotations %v", pv.Spec.HostPath, pv.Annotations)
		}
		return firstError(harness.Exists(path), a.MetricIs(10<<20, "kubevirt_hpp_pool_allocated_bytes", `pool="`+poolName(same, second)+`"`))
	})
	if same {
		if _, err := os.ReadFile(filepath.Join(path, "data")); err != nil {
			t.Error(err)
		}
	}
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
	s.Eventually("nothing left", func() error { return firstError(harness.Missing(ours), harness.Missing(path)) })
}

// refusePV lets the API server refuse an agent's PV of that name until allow is called. It admits
// any other PV.
func refusePV(s *harness.Scene, name string) (allow func()) {
	s.Helper()
	policies, bindings := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	meta := metav1.ObjectMeta{Name: s.Name}
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}},
	}}
	_, err := policies.Create(s.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("object.metadata.name != %q || !(%q in object.metadata.annotations)", name, harness.AnnPool),
			Message:    "refused by the test",
		}},
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = bindings.Create(s.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
	try := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{harness.AnnPool: ""}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
		},
	}
	s.Eventually("refused", func() error { // policies take effect later
		_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), try, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "refused by the test") {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
	return func() {
		_ = bindings.Delete(context.Background(), s.Name, metav1.DeleteOptions{})
		_ = policies.Delete(context.Background(), s.Name, metav1.DeleteOptions{})
	}
}

// selectNode is what the scheduler does.
func selectNode(s *harness.Scene, claim *corev1.PersistentVolumeClaim, node harness.Node) {
	s.Helper()
	if err := patchClaim(s, claim, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, harness.AnnSelectedNode, node.Name)); err != nil {
		s.Fatal(err)
	}
}

// saveTheirs saves the PV that the local-path provisioner makes of the claim, with its directory.
func saveTheirs(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, path string) {
	s.Helper()
	pv := theirPV(a, claim, path)
	if err := os.MkdirAll(path, 0o777); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// theirPV is the PV that the local-path provisioner makes of the claim.
func theirPV(a *harness.Agent, claim *corev1.PersistentVolumeClaim, path string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: harness.PVName(claim), Annotations: map[string]string{harness.AnnProvisionedBy: localPath}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: *claim.Spec.StorageClassName,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
	otherProvisioners[1].dress(pv, path, a.Node)
	return pv
}

// poolName is the name of the pool that has the volume.
func poolName(same bool, second string) string {
	if same {
		return "legacy"
	}
	return second
}
