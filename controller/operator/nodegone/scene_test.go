package nodegone

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

const grace = time.Minute

// scene is a PV of each backend on node-01, which does not exist, with its claim, and the class
// with the policy. The PVs have the reclaim policy Retain, as after the first step of release.
type scene struct {
	pv, csi    *corev1.PersistentVolume
	claim      *corev1.PersistentVolumeClaim
	sc         *storagev1.StorageClass
	capacity   *storagev1.CSIStorageCapacity
	pools      *storagev1.CSIStorageCapacity // none unless a row adds it
	node, host *corev1.Node                  // none unless a row adds one
	agent      *corev1.Pod
	onClaim    string        // the pool that is on a claim, "" for none
	seen       time.Duration // for how long the node has been gone
}

func newScene(policy string) *scene {
	at := contract.Place{Node: "node-01", Hostname: "host-a", NodeUID: "old", Cluster: "c", Pool: "6e0c"}
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	s := &scene{seen: grace + time.Second}
	s.sc = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: contract.HostPathProvisioner, VolumeBindingMode: &delayed}
	if policy != "" {
		s.sc.Annotations = map[string]string{contract.AnnNodeGone: policy}
	}
	s.claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), VolumeName: "pvc-1"},
	}
	d := contract.Own(false)
	s.pv = d.PV("pvc-1", "/var/hpvolumes/pvc-1", s.claim, s.sc, at, corev1.PersistentVolumeReclaimRetain)
	s.csi = contract.CSIPV("pvc-2", "pvc-2", "local", s.claim, &storagev1.StorageClass{Provisioner: contract.CSIProvisioner}, at, corev1.PersistentVolumeReclaimRetain)
	s.csi.Annotations[contract.AnnProvisionedBy] = contract.CSIProvisioner
	for _, pv := range []*corev1.PersistentVolume{s.pv, s.csi} {
		pv.UID, pv.ResourceVersion, pv.Finalizers = types.UID(pv.Name), "1", []string{"kubernetes.io/pv-protection", contract.Finalizer}
		pv.Status.Phase = corev1.VolumeBound
	}
	s.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}
	s.csi.Spec.ClaimRef, s.csi.Status.Phase = nil, corev1.VolumeReleased
	s.capacity = &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "c", UID: "c", ResourceVersion: "1"},
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: "node-01"}}}
	return s
}

// unclaimed has the claim gone, as Kubernetes leaves the PV then.
func (s *scene) unclaimed() { s.claim, s.pv.Status.Phase = nil, corev1.VolumeReleased }

// replaced has a Node of the same name and another UID than the PVs name, with an agent.
func (s *scene) replaced(ready corev1.ConditionStatus) {
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "new"}}
	s.answers(ready)
}

// exists has a Node of the name, without an agent.
func (s *scene) exists(uid types.UID) {
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: uid}}
}

// mark sets an annotation of the PVs, or removes it.
func (s *scene) mark(key, value string) {
	for _, pv := range []*corev1.PersistentVolume{s.pv, s.csi} {
		switch {
		case pv == nil:
		case value == "":
			delete(pv.Annotations, key)
		default:
			pv.Annotations[key] = value
		}
	}
}

// abandoned has a Node of the same name with an empty disk. An administrator gives up what was on
// the older one, and the agent, which is not ready without its pool, reports that the pool of one
// PV is not open.
func (s *scene) abandoned(pv string) {
	s.replaced(corev1.ConditionFalse)
	s.node.Annotations = map[string]string{contract.AnnGiveUp: "new"}
	for _, one := range []*corev1.PersistentVolume{s.pv, s.csi} {
		if one.Name == pv {
			one.Annotations[contract.AnnMissing] = "pool/new"
		}
	}
}

// noted is the patch of a PV with the policy Retain that the annotation of the Node gives up.
func noted(pv, node string) string {
	return fmt.Sprintf(`patch %s {"metadata":{"annotations":{%q:%q},"resourceVersion":"1","uid":%[1]q},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`,
		pv, contract.AnnGivenUp, node)
}

// answers has the pod of an agent on the node.
func (s *scene) answers(ready corev1.ConditionStatus) {
	s.agent = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "agent", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{NodeName: "node-01"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// publishes has the agent of a node publish the pool of the PVs as open in that pod. It is one that
// publishes its pools, if the pod is there.
func (s *scene) publishes(node, pod, pool string) {
	s.pools = &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "pools", UID: "pools", ResourceVersion: "1"},
		StorageClassName: contract.PoolsClass, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: node}}}
	n := contract.NodePools{Pod: pod, Pools: []contract.NodePool{{Name: "local", Path: "/p", ID: pool, Open: true}}}
	_ = n.Publish(s.pools)
	if s.agent != nil {
		s.agent.Spec.Containers = []corev1.Container{{ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: contract.ProbePath}}}}}
	}
}

func (s *scene) objects() (all []runtime.Object) {
	add := func(o runtime.Object, there bool) {
		if there {
			all = append(all, o.DeepCopyObject())
		}
	}
	add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "c"}}, true)
	add(s.pv, s.pv != nil)
	add(s.csi, s.csi != nil)
	add(s.claim, s.claim != nil)
	add(s.sc, s.sc != nil)
	add(s.capacity, s.capacity != nil)
	add(s.pools, s.pools != nil)
	add(s.node, s.node != nil)
	add(s.host, s.host != nil)
	add(s.agent, s.agent != nil)
	return all
}

// reconciler returns one whose cache has the objects, as the API server has them but for the
// change, and a list of what it writes there.
func (s *scene) reconciler(t *testing.T, change func(*scene)) (*Reconciler, func() []string) {
	t.Helper()
	cached := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).
		WithIndex(&corev1.PersistentVolume{}, byNode, nodesOf).
		WithIndex(&corev1.PersistentVolume{}, byPool, poolsOf).WithIndex(&storagev1.CSIStorageCapacity{}, byPool, poolsOf).WithIndex(&storagev1.CSIStorageCapacity{}, byNode, nodesOf).Build()
	r := &Reconciler{Namespace: "agents", Cache: installedtest.Cached(cached), counts: map[string]tally{},
		Grace: func(context.Context) (time.Duration, error) { return grace, nil },
		OnClaims: func(context.Context) (func(string, string) bool, error) {
			return func(pool, node string) bool { return pool == s.onClaim && node == "node-01" }, nil
		},
		since: map[string]silence{"node-01": {at: time.Now().Add(-s.seen)}}}
	if s.node != nil {
		r.since["node-01"] = silence{at: time.Now().Add(-s.seen), uid: s.node.UID}
	}
	if change != nil {
		change(s)
	}
	live := kubefake.NewClientset(s.objects()...)
	recorder := events.NewOf(live, corev1.EventSource{Component: "test"})
	t.Cleanup(recorder.Close)
	r.Live, r.Events = live, recorder
	return r, func() []string { return written(live.Actions()) }
}

// written lists the writes: events with their object and reason, all others as "verb name".
func written(actions []clienttesting.Action) (all []string) {
	for _, a := range actions {
		switch a := a.(type) {
		case clienttesting.CreateAction:
			e := a.GetObject().(*corev1.Event)
			all = append(all, fmt.Sprintf("event %s %s", e.Reason, e.InvolvedObject.Name))
		case clienttesting.DeleteActionImpl:
			if p := a.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
				all = append(all, "without a precondition")
			}
			all = append(all, "delete "+a.GetName())
		case clienttesting.PatchAction:
			all = append(all, "patch "+a.GetName()+" "+string(a.GetPatch()))
		}
	}
	slices.Sort(all)
	return all
}
