package install

import (
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

var poolA = v1beta1.StoragePool{Name: "a", Path: "/a"}

// poolB is on claims.
var poolB = v1beta1.StoragePool{Name: "b", Path: "/b", PVCTemplate: &corev1.PersistentVolumeClaimSpec{
	AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast")}}

// pvOf is a PV of the pool, on node n1.
func pvOf(pool string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + pool}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: pool,
			VolumeAttributes: map[string]string{contract.StoragePool: pool}}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}}}
}

// installedOn returns an operator with pools a and b, and an agent on each node that offers both.
func installedOn(t *testing.T, nodes ...string) operated {
	t.Helper()
	objects := []client.Object{resource("hpp", time.Hour, poolA, poolB)}
	for _, name := range nodes {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	}
	o := operate(t, objects...)
	o.pass("hpp")
	o.counts(len(nodes), 0)
	for _, node := range nodes {
		o.add(o.agentOn(node))
	}
	o.pass("hpp")
	for _, node := range nodes {
		o.wantHolder(node, "1")
	}
	return o
}

func (o operated) add(object client.Object) {
	o.Helper()
	if err := o.client.Create(o.Context(), object); err != nil {
		o.Fatal(err)
	}
}

func (o operated) agents() *appsv1.DaemonSet {
	o.Helper()
	ds, err := o.installed().DaemonSet(o.Context())
	if err != nil || ds == nil {
		o.Fatalf("%v, %v", ds, err)
	}
	return ds
}

// counts sets the numbers of the DaemonSet.
func (o operated) counts(desired, misscheduled int) {
	o.Helper()
	ds, n := o.agents(), int32(desired)
	ds.Status = appsv1.DaemonSetStatus{ObservedGeneration: ds.Generation, DesiredNumberScheduled: n, CurrentNumberScheduled: n,
		UpdatedNumberScheduled: n, NumberReady: n, NumberMisscheduled: int32(misscheduled)}
	if err := o.client.Status().Update(o.Context(), ds); err != nil {
		o.Fatal(err)
	}
}

// agentOn is a pod of the DaemonSet's template.
func (o operated) agentOn(node string) *corev1.Pod {
	ds := o.agents()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + node, Finalizers: []string{"test/keep"},
		Annotations:     ds.Spec.Template.Annotations,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: ptr.To(true)}}},
		Spec:   *ds.Spec.Template.Spec.DeepCopy(),
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	pod.Spec.NodeName = node
	return pod
}

// endAgents removes the agents' pods of the nodes.
func (o operated) endAgents(nodes ...string) {
	o.Helper()
	for _, node := range nodes {
		pod := &corev1.Pod{}
		if err := o.client.Get(o.Context(), client.ObjectKey{Namespace: "ns", Name: "agent-" + node}, pod); err != nil {
			o.Fatal(err)
		}
		pod.Finalizers = nil
		if err := o.client.Update(o.Context(), pod); err != nil {
			o.Fatal(err)
		}
		if err := o.client.Delete(o.Context(), pod); err != nil {
			o.Fatal(err)
		}
	}
}

func (o operated) setPools(pools ...v1beta1.StoragePool) {
	o.Helper()
	o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Spec.StoragePools = pools })
}

func (o operated) changes(change func(*v1beta1.HostPathProvisioner)) {
	o.Helper()
	cr := &v1beta1.HostPathProvisioner{}
	if err := o.client.Get(o.Context(), client.ObjectKey{Name: "hpp"}, cr); err != nil {
		o.Fatal(err)
	}
	change(cr)
	if err := o.client.Update(o.Context(), cr); err != nil {
		o.Fatal(err)
	}
}

// wantHolder checks how many replicas the holder of pool b on the node has, "none" if there is no
// such holder.
func (o operated) wantHolder(node, want string) {
	o.Helper()
	d, got := &appsv1.Deployment{}, "none"
	if err := o.client.Get(o.Context(), client.ObjectKey{Namespace: "ns", Name: "hpp-pool-b-" + node}, d); err == nil && d.DeletionTimestamp == nil {
		got = strconv.Itoa(int(*d.Spec.Replicas))
	}
	if got != want {
		o.Errorf("the holder of pool b on node %s has %s replicas, want %s", node, got, want)
	}
}

func (o operated) wantOffered(want string) {
	o.Helper()
	if got := o.offered(); got != want {
		o.Errorf("the agents offer %q, want %q", got, want)
	}
}

// The disk of a pool stays mounted while volumes use it, in whichever way the pool or the node
// comes to be no longer wanted.
func TestWaysToLoseADisk(t *testing.T) {
	t.Run("a rollout beside a misscheduled agent", func(t *testing.T) {
		o := installedOn(t, "n0", "n1", "n2")
		o.counts(2, 1) // n0 has a taint, and its agent runs on
		o.add(pvOf("b"))
		o.endAgents("n1")
		o.pass("hpp")
		o.wantHolder("n1", "1")
	})
	t.Run("no node is to have an agent", func(t *testing.T) {
		o := installedOn(t, "n1", "n2")
		o.add(pvOf("b"))
		o.endAgents("n1", "n2")
		o.counts(0, 0)
		o.pass("hpp")
		o.wantHolder("n1", "1")
		o.wantHolder("n2", "0")
	})
	t.Run("the DaemonSet is deleted while the pool is retained", func(t *testing.T) {
		o := installedOn(t, "n1")
		o.add(pvOf("b"))
		o.setPools(poolA)
		o.pass("hpp")
		if err := o.client.Delete(t.Context(), o.agents()); err != nil {
			t.Fatal(err)
		}
		o.endAgents("n1")
		for range 2 {
			o.pass("hpp")
		}
		o.wantOffered("a=/a/csib=/b/csi")
		o.wantHolder("n1", "1")
	})
	t.Run("an agent creates a volume before it is replaced", func(t *testing.T) {
		o := installedOn(t, "n1")
		o.setPools(poolA)
		o.pass("hpp")
		o.wantOffered("a=/a/csi")
		o.wantHolder("n1", "1") // the agent of n1 has the pool
		o.add(pvOf("b"))
		o.pass("hpp")
		o.wantOffered("a=/a/csib=/b/csi")
		o.wantHolder("n1", "1")
	})
	t.Run("an agent creates a volume before it is replaced, and the pool moves", func(t *testing.T) {
		o := installedOn(t, "n1", "n2")
		there := poolB
		there.Path = "/c"
		o.setPools(poolA, there)
		for range 2 {
			o.pass("hpp")
		}
		o.wantOffered("a=/a/csi")
		o.wantHolder("n2", "1") // the agents have the pool at /b
		o.add(pvOf("b"))
		o.endAgents("n1", "n2")
		for range 3 {
			o.pass("hpp")
		}
		o.wantOffered("a=/a/csib=/b/csi")
		o.wantHolder("n1", "1")
		o.wantHolder("n2", "1")
	})
	t.Run("it is refused, and the existing operator had it", func(t *testing.T) {
		o := installedOn(t, "n1")
		o.add(pvOf("b"))
		block := poolB
		block.PVCTemplate = poolB.PVCTemplate.DeepCopy()
		block.PVCTemplate.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		if err := o.client.Delete(t.Context(), o.recorded()); err != nil { // as it is on a take-over
			t.Fatal(err)
		}
		if err := o.client.Delete(t.Context(), o.agents()); err != nil {
			t.Fatal(err)
		}
		o.endAgents("n1")
		o.setPools(poolA, block)
		for range 3 {
			o.pass("hpp")
		}
		o.wantHolder("n1", "1")
	})
	t.Run("deletion by force", func(t *testing.T) {
		o := installedOn(t, "n1")
		o.add(pvOf("b"))
		o.deletes(map[string]string{forceAnnotation: "true"})
		o.endAgents("n1")
		for range 20 {
			o.pass("hpp")
		}
		o.wantHolder("n1", "1")
		o.wantGone()
	})
	t.Run("an inline volume", func(t *testing.T) {
		o := installedOn(t, "n1")
		o.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{{
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: contract.CSIProvisioner, VolumeAttributes: map[string]string{contract.StoragePool: "b"}}}}}}})
		o.setPools(poolA)
		o.pass("hpp")
		o.wantOffered("a=/a/csib=/b/csi")
		o.wantHolder("n1", "1")
	})
}

// deletes has a user delete the resource, which gets the annotations.
func (o operated) deletes(annotations map[string]string) {
	o.Helper()
	o.changes(func(cr *v1beta1.HostPathProvisioner) { cr.Annotations = annotations })
	if err := o.client.Delete(o.Context(), resource("hpp", 0)); err != nil {
		o.Fatal(err)
	}
}

// wantGone checks that the resource does not exist.
func (o operated) wantGone() {
	o.Helper()
	if err := o.client.Get(o.Context(), client.ObjectKey{Name: "hpp"}, &v1beta1.HostPathProvisioner{}); !apierrors.IsNotFound(err) {
		o.Errorf("the resource is still there: %v", err)
	}
}

func (o operated) recorded() *corev1.ConfigMap {
	o.Helper()
	m := &corev1.ConfigMap{}
	if err := o.client.Get(o.Context(), client.ObjectKey{Namespace: "ns", Name: poolrecord.Name}, m); err != nil {
		o.Fatal(err)
	}
	return m
}

// What someone wrote into the DaemonSet or a Deployment is repaired, and never decides where a pool
// is.
func TestTamperedPathsAreRepaired(t *testing.T) {
	o := installedOn(t, "n1")
	o.add(pvOf("a"))
	o.add(pvOf("b"))
	ds := o.agents()
	poolrecord.Set(&ds.Spec.Template.Spec.Containers[0], "DATADIR", `[{"name":"a","path":"/elsewhere/csi"},{"name":"more","path":"/more/csi"}]`)
	poolrecord.Set(&ds.Spec.Template.Spec.Containers[0], "PV_DIR", "/etc")
	if err := o.client.Update(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	o.endAgents("n1")
	o.add(o.agentOn("n1")) // from the tampered DaemonSet
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: "ns", Name: "hpp-pool-b-n1"}
	if err := o.client.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Args[2] = "--path=/etc/csi"
	if err := o.client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o.pass("hpp")
	}
	o.wantOffered("a=/a/csib=/b/csi")
	if err := o.client.Get(t.Context(), key, d); err != nil || d.Spec.Template.Spec.Containers[0].Args[2] != "--path=/b/csi" {
		t.Errorf("%v, the holder has %q", err, d.Spec.Template.Spec.Containers[0].Args)
	}
	if text := o.recorded().Data["record.json"]; strings.Contains(text, "elsewhere") || strings.Contains(text, "more") || strings.Contains(text, "etc") {
		t.Errorf("the record adopted it: %s", text)
	}
}

// An installation of an earlier version has no record: its retained pools are in the DaemonSet
// alone.
func TestRecordIsSeededOnce(t *testing.T) {
	o := installedOn(t, "n1")
	o.add(pvOf("b"))
	o.setPools(poolA)
	o.pass("hpp")
	if err := o.client.Delete(t.Context(), o.recorded()); err != nil {
		t.Fatal(err)
	}
	o.pass("hpp")
	o.wantOffered("a=/a/csib=/b/csi")
	if text := o.recorded().Data["record.json"]; !strings.Contains(text, "hpp-pool-b-n1") || len(o.recorded().OwnerReferences) != 0 {
		t.Errorf("the record has %s", text)
	}
	for _, text := range []string{`{"pools":[{"name":"a","path":"relative"}]}`, "{}"} {
		o.recordIs(text) // nothing is decided by what cannot be understood
		if _, err := o.layouts.Read(t.Context(), o.Reconciler.installed(), resource("hpp", time.Hour, poolA)); err == nil || !strings.Contains(err.Error(), poolrecord.Name) {
			t.Errorf("%s: %v", text, err)
		}
		o.wantOffered("a=/a/csib=/b/csi")
	}
}

func (o operated) recordIs(text string) {
	o.Helper()
	m := o.recorded()
	m.Data = map[string]string{"record.json": text}
	if err := o.client.Update(o.Context(), m); err != nil {
		o.Fatal(err)
	}
}

// A pool that nothing uses leaves the record when the last agent that offers it has ended.
func TestRecordForgets(t *testing.T) {
	o := installedOn(t, "n1")
	o.setPools(poolA)
	o.pass("hpp")
	if text := o.recorded().Data["record.json"]; !strings.Contains(text, `"name": "b"`) {
		t.Errorf("an agent offers pool b, and the record has %s", text)
	}
	o.endAgents("n1")
	o.add(o.agentOn("n1"))
	o.pass("hpp")
	o.wantHolder("n1", "0")
	if l, err := o.layouts.Read(t.Context(), o.Reconciler.installed(), resource("hpp", time.Hour, poolA)); err != nil || l.Leaving() {
		t.Errorf("the record still has %+v, %v", l.Record.Pools, err)
	}
}
