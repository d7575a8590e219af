package claimpools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// cluster is a Reconciler with its objects.
type cluster struct {
	*testing.T
	client.Client
	k      *Reconciler
	events []string
}

// objectsOf returns a cluster whose API server gives UIDs to what is created.
func objectsOf(t *testing.T, there ...client.Object) *cluster {
	t.Helper()
	c, n := &cluster{T: t}, 0
	c.Client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(there...).WithStatusSubresource(&appsv1.Deployment{}, &batchv1.Job{}).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			n++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", n)))
			return to.Create(ctx, o, opts...)
		}}).Build()
	c.k = &Reconciler{release.Pass{Maker: objects.Maker{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1"}, Client: installedtest.CachedClient(c.Client), Live: c.Client,
		Now: time.Now, Applier: c, Events: c, Record: c.read(), Resource: &v1beta1.HostPathProvisioner{}, Blockers: &release.Blockers{}}}
	return c
}

// read reads the operator's record.
func (c *cluster) read() *poolrecord.Record {
	c.Helper()
	record, err := poolrecord.Read(c.Context(), c.Client, "ns")
	if err != nil {
		c.Fatal(err)
	}
	return record
}

// recorded are the holders as they were saved last.
func (c *cluster) recorded() map[string]poolrecord.Holder { return c.read().Holders }

// Eventf implements events.EventRecorder.
func (c *cluster) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	c.events = append(c.events, reason+" "+fmt.Sprintf(note, args...))
}

// Apply implements release.Applier.
func (c *cluster) Apply(ctx context.Context, _ client.Object, all ...*unstructured.Unstructured) error {
	return c.apply(ctx, deployment(all[0]))
}

// Differs implements release.Applier.
func (c *cluster) Differs(ctx context.Context, want *unstructured.Unstructured) (bool, error) {
	return c.differs(ctx, deployment(want))
}

func deployment(o *unstructured.Unstructured) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
		panic(err)
	}
	return d
}

// apply makes the cluster's Deployment the desired one, owned by the resource.
func (c *cluster) apply(ctx context.Context, o client.Object) error {
	want := o.(*appsv1.Deployment)
	if h, found := c.recorded()[want.Name]; !found || h.Path != objects.PathOf(want) {
		c.Errorf("Deployment %s is applied at %s, and the record says %+v", want.Name, objects.PathOf(want), h)
	}
	want.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "HostPathProvisioner", Name: "hpp", UID: "hpp"}}
	have := c.holder(want.Name)
	if have == nil {
		return c.Create(ctx, want)
	}
	if have.DeletionTimestamp != nil {
		return nil
	}
	if differs, _ := c.differs(ctx, want); !differs {
		return nil
	}
	have.Spec, have.OwnerReferences = want.Spec, want.OwnerReferences
	if err := c.Update(ctx, have); err != nil {
		return err
	}
	have.Status.ReadyReplicas = 0 // its pod is replaced
	return c.Status().Update(ctx, have)
}

func (c *cluster) differs(_ context.Context, o client.Object) (bool, error) {
	want, have := o.(*appsv1.Deployment), c.holder(o.GetName())
	return !equality.Semantic.DeepEqual(have.Spec.Template, want.Spec.Template) || *have.Spec.Replicas != 1 || len(have.OwnerReferences) == 0, nil
}

// holder returns the Deployment of that name, nil if there is none.
func (c *cluster) holder(name string) *appsv1.Deployment {
	c.Helper()
	d := &appsv1.Deployment{}
	err := c.Get(c.Context(), client.ObjectKey{Namespace: "ns", Name: name}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	return d
}

// wantReplicas checks how many pods the holder of pool p on the node is to have, -1 if it is to be
// gone.
func (c *cluster) wantReplicas(node string, want int32) {
	c.Helper()
	got := int32(-1)
	if d := c.holder(objects.NameOf("p", node)); d != nil {
		got = *d.Spec.Replicas
	}
	if got != want {
		c.Errorf("the holder on node %s has %d replicas, want %d", node, got, want)
	}
}

func (c *cluster) pass(w objects.Desired) Result {
	c.Helper()
	r, err := c.k.Reconcile(c.Context(), w)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func (c *cluster) gone(o client.Object) {
	c.Helper()
	if err := c.Delete(c.Context(), o.DeepCopyObject().(client.Object)); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) create(o client.Object) {
	c.Helper()
	if err := c.Create(c.Context(), o.DeepCopyObject().(client.Object)); err != nil {
		c.Fatal(err)
	}
}

// runs has the pods of Deployments run and those of Jobs end, as Kubernetes does.
func (c *cluster) runs() {
	c.Helper()
	var all appsv1.DeploymentList
	var jobs batchv1.JobList
	if err := c.List(c.Context(), &all); err != nil {
		c.Fatal(err)
	}
	for _, d := range all.Items {
		d.Status.ReadyReplicas, d.Status.ObservedGeneration = *d.Spec.Replicas, d.Generation
		if err := c.Status().Update(c.Context(), &d); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.List(c.Context(), &jobs); err != nil {
		c.Fatal(err)
	}
	for _, job := range jobs.Items {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := c.Status().Update(c.Context(), &job); err != nil {
			c.Fatal(err)
		}
	}
}

func nodeNamed(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

// volumeOn is a PV of pool p on the node.
func volumeOn(node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + node}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "v",
			VolumeAttributes: map[string]string{contract.StoragePool: "p"}}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}}
}

// agentOn is an agent's pod with the settings.
func agentOn(node, datadir string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + node}, Spec: corev1.PodSpec{NodeName: node,
		Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "DATADIR", Value: datadir}}}}}}
}

func inlineOn(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "inline"}, Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: contract.CSIProvisioner, VolumeAttributes: map[string]string{contract.StoragePool: "p"}}}}}}}
}

// poolP is pool p, on nodes n1 and n2.
func poolP() objects.Desired {
	return objects.Desired{Pools: []objects.Pool{{Name: "p", Path: "/srv/p/csi", Template: spec(func(*corev1.PersistentVolumeClaimSpec) {})}},
		Nodes: []objects.Node{{Name: "n1"}, {Name: "n2"}}, Agents: 2, Settled: true}
}

// A holder ends only if nothing uses its disk, for whatever reason it is no longer wanted.
func TestMayEnd(t *testing.T) {
	const offersP = `[{"name":"p","path":"/srv/p/csi"}]`
	for _, row := range []struct {
		name   string
		object client.Object
		why    string // "" if it ends
		left   bool   // it is only waited for
		// elsewhere is set if it is of the pool, and on another node.
		elsewhere bool
	}{
		{"a PV elsewhere", volumeOn("n2"), "", false, true},
		{"a PV", volumeOn("n1"), "PV pv-n1", false, false},
		{"a pod with an inline volume", inlineOn("n1"), "pod tenant/inline", false, false},
		{"a pod with an inline volume elsewhere", inlineOn("n2"), "", false, true},
		{"an agent that offers it", agentOn("n1", offersP), "pod agent-n1", true, false},
		{"an agent with another pool at its path", agentOn("n1", `[{"name":"q","path":"/srv/p/csi"}]`), "pod agent-n1", true, false},
		{"an agent whose settings cannot be read", agentOn("n1", "["), "pod agent-n1", true, false},
		{"an agent on another node", agentOn("n2", offersP), "", false, true},
		{"an agent without it", agentOn("n1", "[]"), "", false, false},
	} {
		for reason, w := range map[string]objects.Desired{
			"no node is to have an agent": {Pools: poolP().Pools, Settled: true}, "the pool is removed": {Nodes: poolP().Nodes, Agents: 2, Settled: true},
			"the resource is deleted": {Settled: true, Deleted: true}, "the pool is moved": {Pools: []objects.Pool{{Name: "p", Path: "/new/csi"}}, Nodes: poolP().Nodes, Settled: true},
		} {
			c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
			c.pass(poolP())
			c.runs()
			c.create(row.object)
			r := c.pass(w)
			if reason == "the pool is moved" && row.why == "" && row.elsewhere {
				c.wantReplicas("n1", 1) // see TestMoves
				continue
			}
			if row.why == "" {
				c.wantReplicas("n1", 0)
				continue
			}
			c.wantReplicas("n1", 1)
			told := r.Kept
			if row.left {
				told = r.Left
			}
			if !strings.Contains(strings.Join(told, "\n"), row.why) {
				t.Errorf("%s, %s: left %q, kept %q, want %q", row.name, reason, r.Left, r.Kept, row.why)
			}
		}
	}
}

// The question is asked again right before the Job: what came while the pod ended brings the pod
// back.
func TestVolumeThatComesWhileTheHolderEnds(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
	c.pass(poolP())
	c.runs()
	c.pass(objects.Desired{Settled: true})
	c.wantReplicas("n1", 0)
	c.create(volumeOn("n1"))
	c.runs()
	r := c.pass(objects.Desired{Settled: true})
	c.wantReplicas("n1", 1)
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 || jobs.Items[0].Name != objects.JobOf("p", "n2") {
		t.Errorf("%v, Jobs %+v, kept %q", err, jobs.Items, r.Kept)
	}
	for range 3 {
		c.runs()
		c.pass(objects.Desired{Settled: true})
	}
	c.wantReplicas("n1", 1)
	c.wantReplicas("n2", -1)
	if _, found := c.recorded()[objects.NameOf("p", "n2")]; found || len(c.recorded()) != 1 {
		t.Errorf("the record has %v", c.recorded())
	}
}

// A node that does not exist may come back: with PVs it keeps its holder.
func TestAbsentNode(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue), volumeOn("n1"))
		c.pass(poolP())
		for _, node := range []string{"n1", "n2"} {
			if err := c.Delete(t.Context(), nodeNamed(node, corev1.ConditionTrue)); err != nil {
				t.Fatal(err)
			}
		}
		c.pass(objects.Desired{Settled: true, Deleted: deleted})
		c.wantReplicas("n1", 1)
		c.wantReplicas("n2", -1)
	}
}

// A deletion by force leaves the disks that are used, without an owner that would take them along.
func TestDeletionLeavesWhatIsUsed(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionFalse), volumeOn("n1"), agentOn("n2", `[{"name":"p","path":"/srv/p/csi"}]`))
	c.pass(poolP())
	r := c.pass(objects.Desired{Settled: true, Deleted: true})
	c.wantReplicas("n1", 1)
	c.wantReplicas("n2", -1) // it is not ready, so it is not waited for
	if d := c.holder(objects.NameOf("p", "n1")); len(d.OwnerReferences) != 0 || len(r.Left) != 0 {
		t.Errorf("owners %v, left %q", d.OwnerReferences, r.Left)
	}
	if text := strings.Join(c.events, "\n"); !strings.Contains(text, "PoolNotUnmounted /srv/p/csi on node n1 stays mounted") {
		t.Error(text)
	}
	c.pass(poolP()) // another resource takes it over
	if d := c.holder(objects.NameOf("p", "n1")); len(d.OwnerReferences) != 1 {
		t.Errorf("owners %v", d.OwnerReferences)
	}
}

// The pod of a silent node does not end, nor does a Deployment that is deleted before it: the deletion of
// the resource does not wait for them.
func TestDeletionWaitsForNoSilentNode(t *testing.T) {
	for node, status := range map[string]corev1.ConditionStatus{"n1": corev1.ConditionTrue, "n2": corev1.ConditionFalse} {
		c := objectsOf(t, nodeNamed(node, status))
		c.pass(poolP())
		d := c.holder(objects.NameOf("p", node))
		d.Finalizers = append(d.Finalizers, metav1.FinalizerDeleteDependents)
		if err := errors.Join(c.Update(t.Context(), d), c.Delete(t.Context(), d)); err != nil {
			t.Fatal(err)
		}
		for _, deleted := range []bool{false, true} {
			r := c.pass(objects.Desired{Settled: true, Deleted: deleted})
			if waits := len(r.Left) > 0; waits != (node == "n1" || !deleted) {
				t.Errorf("node %s, deleted %v: left %q", node, deleted, r.Left)
			}
		}
	}
}

// A holder's Deployment that is gone, and that the cache still has, gets no Job: that would be deleted
// with its owner at once, and made again by the next pass.
func TestNoJobForAHolderThatIsGone(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue))
	c.pass(poolP())
	c.pass(objects.Desired{Settled: true}) // to no pods
	c.runs()
	made := 0
	c.k.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			made++
			return to.Create(ctx, o, opts...)
		},
	})
	c.k.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, to client.WithWatch, all client.ObjectList, opts ...client.ListOption) error {
			if _, is := all.(*appsv1.DeploymentList); is {
				return nil
			}
			return to.List(ctx, all, opts...)
		},
	})
	if r := c.pass(objects.Desired{Settled: true}); made > 0 || !strings.Contains(strings.Join(r.Left, "; "), "is gone or has a pod again") {
		t.Errorf("%d Jobs were made; left %q", made, r.Left)
	}
	c.k.Client, c.k.Live = c.Client, c.Client
	c.pass(objects.Desired{Settled: true})
	c.runs()
	c.pass(objects.Desired{Settled: true})
	c.wantReplicas("n1", -1)
}

// A Node that is absent for a moment, because it is registered again, has an agent that runs on, and
// offers a pool that was just removed: the holder stays until that agent has ended.
func TestAbsentNodeWhoseAgentRuns(t *testing.T) {
	agent := agentOn("n1", `[{"name":"p","path":"/srv/p/csi"}]`)
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue), agent)
	c.pass(poolP())
	c.runs()
	if err := c.Delete(t.Context(), nodeNamed("n1", corev1.ConditionTrue)); err != nil {
		t.Fatal(err)
	}
	gone := objects.Desired{Nodes: poolP().Nodes, Agents: 2, Settled: true} // pool p is removed
	r := c.pass(gone)
	c.wantReplicas("n1", 1)
	if _, found := c.recorded()[onN1]; !found || !strings.Contains(strings.Join(r.Left, " "), "the agent has to end") {
		t.Errorf("the record forgot the disk, which is mounted on the node; left %q", r.Left)
	}
	if err := c.Delete(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	c.pass(gone)
	c.wantReplicas("n1", -1)
}

// One list of all PVs and pods serves a pass, however many holders go and however long it takes.
func TestOneListServesThePass(t *testing.T) {
	var there []client.Object
	w := poolP()
	w.Nodes = nil
	for i := range 20 {
		name := fmt.Sprintf("n%02d", i)
		there = append(there, nodeNamed(name, corev1.ConditionTrue))
		w.Nodes = append(w.Nodes, objects.Node{Name: name})
	}
	c := objectsOf(t, there...)
	c.pass(w)
	c.runs()
	now, lists := time.Now(), 0
	c.k.Now = func() time.Time { return now }
	c.k.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, from client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PersistentVolumeList); ok {
				lists++
				now = now.Add(6 * time.Second)
			}
			return from.List(ctx, list, opts...)
		}})
	passes := 0
	for ; passes < 8 && len(c.recorded()) > 0; passes++ {
		c.pass(objects.Desired{Settled: true}) // the pool is removed
		c.runs()
	}
	if lists > passes || len(c.recorded()) > 0 {
		t.Errorf("%d passes listed all PVs %d times; recorded %d", passes, lists, len(c.recorded()))
	}
}
