package install

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// recordWithout removes a field from the record, as a version writes it that does not know the field.
func (o operated) recordWithout(field string) {
	o.Helper()
	var content map[string]any
	if err := json.Unmarshal([]byte(o.recorded().Data["record.json"]), &content); err != nil {
		o.Fatal(err)
	}
	if _, found := content[field]; !found {
		o.Fatalf("the record has no %s: %v", field, content)
	}
	delete(content, field)
	text, err := json.Marshal(content)
	if err != nil {
		o.Fatal(err)
	}
	o.recordIs(string(text))
}

// An earlier version recorded no settings, and its agents may have run with a misspelt one as if that were not set.
// After the upgrade nothing is destroyed by it, and what is valid at the upgrade counts when it is misspelt later.
func TestUpgradeWithMisspeltSettings(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, poolA), settingsOf(map[string]string{"HPP_ORPHANS": "keep", "HPP_ORPHAN_GRACE": "720h"}))
	o.pass("hpp")
	o.recordWithout("settings")
	o.Image = "image:v2"
	o.set(map[string]string{"PV_RECLAIM_POLICY": "retain", "nodeGoneGrace": "1d", "HPP_ORPHAN_GRACE": "720h"})
	if got := o.variable("PV_RECLAIM_POLICY"); got != "Retain" || o.agents().Spec.Template.Spec.Containers[0].Image != "image:v2" {
		t.Errorf("the agents of image %s have the policy %q", o.agents().Spec.Template.Spec.Containers[0].Image, got)
	}
	if _, err := layout.NodeGoneGrace(t.Context(), o.Reconciler.installed()); err == nil {
		t.Error("volumes of lost nodes are given up")
	}
	o.set(map[string]string{"HPP_ORPHAN_GRACE": "30d"})
	if got := o.variable("HPP_ORPHAN_GRACE"); got != "720h" {
		t.Errorf("the agents have the grace %q, which was valid at the upgrade", got)
	}
	o.recordWithout("settings")
	o.Image = "image:v3"
	o.set(map[string]string{"HPP_RESERVE": "10 Gi"})
	if got := o.agents().Spec.Template.Spec.Containers[0].Image; got != "image:v2" || !strings.Contains(o.message(), "until then the agents are not changed") {
		t.Errorf("the agents have the image %s, message %q", got, o.message())
	}
}

// An earlier version left nodes out and did not mark its agents. The upgrade replaces them once, as each upgrade
// does. A node that comes back afterwards replaces none, and one that comes back meanwhile keeps none from it.
func TestUpgradeBesideALeftOutNode(t *testing.T) {
	for _, done := range []bool{false, true} {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner", UID: "old", Labels: map[string]string{apply.ManagedBy: apply.Owner},
			Finalizers: []string{metav1.FinalizerDeleteDependents}}}
		o := operate(t, resource("hpp", time.Hour, poolA), set)
		dead := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old-dead", Finalizers: []string{"test/hangs"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: corev1.PodSpec{NodeName: "dead"}}
		o.add(dead)
		if err := o.client.Delete(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		o.passed()
		ds := o.agents() // as the earlier version had it
		ds.Spec.Template.Annotations = nil
		if err := o.client.Update(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		o.add(o.agentOn("n1"))
		want := func(when string, how appsv1.DaemonSetUpdateStrategyType, without int) {
			t.Helper()
			o.passed()
			if is := o.agents(); is.Spec.UpdateStrategy.Type != how || len(former.LeftOutBy(is)) != without {
				t.Errorf("%s (the agents are replaced: %t): %s without %v", when, done, is.Spec.UpdateStrategy.Type, former.LeftOutBy(is))
			}
		}
		want("the upgrade", appsv1.RollingUpdateDaemonSetStrategyType, 1)
		after := appsv1.RollingUpdateDaemonSetStrategyType
		if done {
			o.replaced("n1")
			after = appsv1.OnDeleteDaemonSetStrategyType
		}
		for _, gone := range []client.Object{dead, set} {
			if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err != nil {
				t.Fatal(err)
			}
			gone.SetFinalizers(nil)
			if err := o.client.Update(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
		}
		want("the node comes back", after, 0)
	}
}

// An earlier version left the disk mounted of a pool that lost its pvcTemplate, and its agents offer the directory on
// it. Without volumes it is unmounted, and then the directory is offered; with one everything stays.
func TestUpgradeWithADiskThatWasLeft(t *testing.T) {
	for _, used := range []bool{false, true} {
		o := installedOn(t, "n1")
		plain := poolB
		plain.PVCTemplate = nil
		text := strings.ReplaceAll(o.recorded().Data["record.json"], `"path": "/b/csi",`+"\n   "+`"mount": "/b/csi"`, `"path": "/b/csi"`)
		if text == o.recorded().Data["record.json"] || !strings.Contains(text, "hpp-pool-b-n1") {
			t.Fatalf("the record has %s", text)
		}
		o.recordIs(text)
		o.setPools(poolA, plain)
		ds := o.agents()
		poolrecord.Set(&ds.Spec.Template.Spec.Containers[0], "DATADIR", `[{"name":"a","path":"/a/csi"},{"name":"b","path":"/b/csi"}]`)
		if err := o.client.Update(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		o.endAgents("n1")
		o.add(o.agentOn("n1"))
		if used {
			o.add(pvOf("b"))
		}
		o.passed()
		for range 8 {
			o.replaced("n1")
			o.jobsComplete()
			o.passed()
		}
		if used {
			o.wantHolder("n1", "1")
		} else {
			o.wantHolder("n1", "none")
		}
		o.wantOffered("a=/a/csib=/b/csi")
	}
}

// The holders and agents of an earlier version have no pull secrets, and its record has nothing of pools but their
// places. The upgrade changes them in place: the objects and the mounts stay.
func TestUpgradeOfHoldersAndPools(t *testing.T) {
	o := installedOn(t, "n1")
	before := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: "ns", Name: "hpp-pool-b-n1"}
	if err := o.client.Get(t.Context(), key, before); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(o.recorded().Data["record.json"], "details") || len(before.Spec.Template.Spec.ImagePullSecrets) > 0 {
		t.Fatalf("not as an earlier version has it: %s", o.recorded().Data["record.json"])
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.OperatorName}}
	d.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	o.add(d)
	a, b := poolA, poolB
	a.NodeSelector, b.ScaleDown = map[string]v1beta1.LabelValue{"disk": "fast"}, true
	o.Image = "image:v2"
	o.setPools(a, b)
	o.passed()
	after := &appsv1.Deployment{}
	if err := o.client.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	pod := after.Spec.Template
	if after.UID != before.UID || pod.Annotations["cluster-autoscaler.kubernetes.io/daemonset-pod"] != "true" || len(pod.Spec.ImagePullSecrets) != 1 || *after.Spec.Replicas != 1 {
		t.Errorf("the holder has %v, %v", pod.Annotations, pod.Spec.ImagePullSecrets)
	}
	if got := o.variable("DATADIR"); !strings.Contains(got, `"disk":"fast"`) || !strings.Contains(got, "/b/csi") || len(o.agents().Spec.Template.Spec.ImagePullSecrets) != 1 {
		t.Errorf("the agents have %s", got)
	}
}
