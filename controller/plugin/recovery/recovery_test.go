package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lost is a cluster that was built again on the disks of one that is called "old": the plan of one node
// has volumes of namespace shop, and nothing of them is there.
type lost struct {
	t *testing.T
	*Recovery
	objects *fake.Clientset
	plan    agents.Planned
	// die is how many writes succeed before all fail; -1 for no end.
	die, writes int
}

func newLost(t *testing.T, volumes int, objects ...runtime.Object) *lost {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "new"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: metav1.NewTime(created.Add(time.Hour))}})
	l := &lost{t: t, objects: fake.NewClientset(objects...), die: -1}
	l.Recovery = &Recovery{Client: apitest.Listing(l.objects), Options: recovery.Options{FromCluster: "old"}}
	l.plan = agents.Planned{Agent: cluster.Agent{Node: "node-01", Namespace: "hpp", Pod: "agent", ServiceAccount: "sa"}, Plan: recovery.Plan{Pools: []string{"pool"}}}
	for i := range volumes {
		l.plan.Volumes = append(l.plan.Volumes, planned(fmt.Sprintf("pvc-%d", i), fmt.Sprintf("data-%d", i)))
	}
	l.objects.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() != "create" && a.GetVerb() != "patch" || strings.HasSuffix(a.GetResource().Resource, "reviews") {
			return false, nil, nil
		}
		if l.die == 0 {
			return true, nil, errors.New("killed")
		}
		l.die--
		l.writes++
		return false, nil, nil
	})
	return l
}

func planned(pv, claim string) recovery.Volume {
	class := "fast"
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: claim, Labels: map[string]string{"app": "db"}}}
	c.Spec.VolumeName, c.Spec.StorageClassName = pv, &class
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	p := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv, Labels: map[string]string{contract.LabelNode: "node-01"},
		Annotations: map[string]string{contract.AnnPool: "pool", contract.AnnProvisionedBy: contract.CSIProvisioner}}}
	p.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: pv}
	p.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: claim}
	p.Spec.StorageClassName, p.Spec.AccessModes, p.Spec.Capacity = class, c.Spec.AccessModes, c.Spec.Resources.Requests
	recovery.NotePolicy(p, "Delete")
	return recovery.Volume{Pool: "/pool", PoolUUID: "pool", Name: pv, PVName: pv, Namespace: "shop", Claim: claim, ClaimUID: "old-" + claim, Bytes: 1 << 30,
		Created: created, Cluster: "old", Policy: "Delete", Objects: &recovery.Objects{PV: p, Claim: c}}
}

// bind does what the controller-manager and the agent do: it binds, and the agent records the claim.
func (l *lost) bind() {
	l.t.Helper()
	claims, err := l.objects.CoreV1().PersistentVolumeClaims("").List(context.Background(), metav1.ListOptions{})
	l.must(err)
	for i := range claims.Items {
		c := &claims.Items[i]
		obj, err := l.objects.Tracker().Get(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), "", c.Spec.VolumeName)
		if err != nil {
			continue
		}
		pv := obj.(*corev1.PersistentVolume).DeepCopy()
		if ref := pv.Spec.ClaimRef; ref.Name != c.Name || ref.Namespace != c.Namespace {
			continue
		}
		c.UID, c.Status.Phase = types.UID("new-"+c.Name), corev1.ClaimBound
		pv.Spec.ClaimRef.UID, pv.Status.Phase = c.UID, corev1.VolumeBound
		l.must(l.objects.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), c, c.Namespace))
		l.must(l.objects.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""))
		for j := range l.plan.Volumes {
			if l.plan.Volumes[j].PVName == pv.Name {
				l.plan.Volumes[j].ClaimUID, l.plan.Volumes[j].Cluster, l.plan.Volumes[j].Policy = string(c.UID), "new", "Retain"
			}
		}
	}
}

func (l *lost) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// run recovers once, and returns the volumes.
func (l *lost) run() []*Volume {
	l.t.Helper()
	l.writes = 0
	all, err := l.Decide(context.Background(), []agents.Planned{l.plan})
	l.must(err)
	l.Apply(context.Background(), all)
	l.bind()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	l.Wait(over, all)
	l.Policies(over, all, func(context.Context) []agents.Planned { return []agents.Planned{l.plan} })
	return all
}

func (l *lost) pv(name string) *corev1.PersistentVolume {
	l.t.Helper()
	pv, err := l.objects.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	l.must(err)
	return pv
}

// bound checks that each volume is Bound with the policy that it had.
func (l *lost) bound(when string) {
	l.t.Helper()
	for _, v := range l.plan.Volumes {
		pv := l.pv(v.PVName)
		if pv.Status.Phase != corev1.VolumeBound || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.Annotations[contract.AnnFormerPolicy] != "" {
			l.t.Errorf("%s: PV %s is %s with policy %s and the note %q", when, pv.Name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations[contract.AnnFormerPolicy])
		}
	}
}

// One run makes PV and claim of all volumes, and gives the policies back. One more changes nothing.
func TestRecover(t *testing.T) {
	l := newLost(t, 3)
	for _, v := range l.run() {
		if v.Verdict != recovery.Made || v.Failed != "" || !v.Bound {
			t.Errorf("%+v", v)
		}
	}
	l.bound("after a run")
	if l.writes != 9 {
		t.Errorf("%d writes, want claim, PV and policy of each", l.writes)
	}
	for _, v := range l.run() {
		if v.Verdict != recovery.There || v.Failed != "" {
			t.Errorf("once more: %+v", v)
		}
	}
	if l.writes != 0 {
		t.Errorf("one more run makes %d writes", l.writes)
	}
}

// Killed before any of its writes, the next run goes on.
func TestRecoverKilledAnywhere(t *testing.T) {
	for n := range 6 {
		l := newLost(t, 2)
		l.die = n
		l.run()
		for _, v := range l.plan.Volumes {
			if pv, err := l.objects.CoreV1().PersistentVolumes().Get(t.Context(), v.PVName, metav1.GetOptions{}); err == nil && pv.Status.Phase != corev1.VolumeBound &&
				pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
				t.Errorf("killed at write %d: PV %s can be reclaimed", n, pv.Name)
			}
		}
		l.die = -1
		l.run()
		l.bound(fmt.Sprintf("killed at write %d", n))
		if l.run(); l.writes != 0 {
			t.Errorf("killed at write %d: one more run makes %d writes", n, l.writes)
		}
	}
}

// Interrupted between two volumes, it says of the second that nothing was written.
func TestRecoverInterrupted(t *testing.T) {
	l := newLost(t, 2)
	ctx, interrupt := context.WithCancel(t.Context())
	all, err := l.Decide(ctx, []agents.Planned{l.plan})
	l.must(err)
	l.objects.PrependReactor("create", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		interrupt()
		return false, nil, nil
	})
	l.Apply(ctx, all)
	l.Wait(ctx, all)
	if len(all) != 2 || !strings.Contains(all[0].Failed, "are written, and not Bound yet: kubectl -n shop describe pvc data-0") ||
		strings.Contains(all[0].Failed, "nil") || !strings.Contains(all[1].Failed, "nothing was written for it") {
		t.Errorf("%+v", all)
	}
}

// A StatefulSet's claim that waits gets the volume; the PV may be there first. A PV that is made names the
// UID of its claim: a Lost one would stay Lost, and a claim that another tenant makes under the name later
// must not get it.
func TestRecoverWhatIsHalfThere(t *testing.T) {
	waits := planned("pvc-0", "data-0").Objects.Claim
	waits.Spec.VolumeName, waits.UID, waits.Status.Phase = "", "waits", corev1.ClaimPending
	gone := planned("pvc-0", "data-0").Objects.Claim
	gone.UID, gone.Status.Phase = "lost", corev1.ClaimLost
	for what, row := range map[string]struct {
		object runtime.Object
		uid    types.UID // of the claimRef
	}{"a claim that waits": {waits, "waits"}, "the PV first": {planned("pvc-0", "data-0").Objects.PV, ""}, "a Lost claim": {gone, "lost"}} {
		l := newLost(t, 1, row.object)
		all, err := l.Decide(t.Context(), []agents.Planned{l.plan})
		l.must(err)
		l.Apply(t.Context(), all)
		if uid := l.pv("pvc-0").Spec.ClaimRef.UID; uid != row.uid {
			t.Errorf("%s: the claimRef has the UID %q, want %q", what, uid, row.uid)
		}
		c, err := l.objects.CoreV1().PersistentVolumeClaims("shop").Get(t.Context(), "data-0", metav1.GetOptions{})
		if err != nil || c.Spec.VolumeName != "pvc-0" || all[0].Failed != "" {
			t.Errorf("%s: %+v, %v, %q", what, c, err, all[0].Failed)
		}
		l.run()
		l.bound(what)
	}
}

// A claim of an importer keeps its image, and whatever changes between plan and write is left.
func TestRecoverLeaves(t *testing.T) {
	imported := planned("pvc-0", "data-0").Objects.Claim
	imported.Spec.VolumeName, imported.UID = "", "cdi"
	imported.Annotations = map[string]string{"cdi.kubevirt.io/storage.import.endpoint": "https://images"}
	l := newLost(t, 1, imported)
	if all := l.run(); all[0].Verdict != recovery.Left || l.writes != 0 {
		t.Errorf("an importer's claim: %+v, %d writes", all[0].Finding, l.writes)
	}
	l = newLost(t, 1)
	all, err := l.Decide(t.Context(), []agents.Planned{l.plan})
	l.must(err)
	other := planned("pvc-9", "data-0").Objects.Claim
	_, err = l.objects.CoreV1().PersistentVolumeClaims("shop").Create(t.Context(), other, metav1.CreateOptions{})
	l.must(err)
	l.writes = 0
	if l.Apply(t.Context(), all); l.writes != 0 || !strings.Contains(all[0].Failed, "changed since") {
		t.Errorf("a claim that came meanwhile: %d writes, %q", l.writes, all[0].Failed)
	}
	for what, refused := range map[string]string{"namespaces": "shop", "persistentvolumeclaims": "data-0"} {
		l := newLost(t, 1)
		l.objects.PrependReactor("get", what, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.(clienttesting.GetAction).GetName() == refused, nil, errors.New("you may not")
		})
		if all := l.run(); all[0].Verdict != recovery.Left || !strings.Contains(all[0].Why, "not known") || l.writes != 0 {
			t.Errorf("%s cannot be read: %+v", what, all[0].Finding)
		}
	}
}

// Two volumes of one name are both left, and so is a PV whose volume is gone. Another namespace's are
// not in the plan.
func TestRecoverNames(t *testing.T) {
	l := newLost(t, 1)
	l.plan.Volumes = append(l.plan.Volumes, planned("pvc-1", "data-0"), planned("pvc-2", "data-2"))
	other := l.plan
	other.Agent.Node, other.Pools, other.Volumes = "node-02", []string{"copy"}, []recovery.Volume{planned("pvc-2", "data-2")}
	other.Volumes[0].PoolUUID = "copy"
	other.Volumes[0].Objects.PV.Annotations[contract.AnnPool], other.Volumes[0].Objects.PV.Labels[contract.LabelNode] = "copy", "node-02"
	all, err := l.Decide(t.Context(), []agents.Planned{l.plan, other})
	l.must(err)
	for _, v := range all {
		if v.Verdict != recovery.Left || !strings.Contains(v.Why, "too: apply what") {
			t.Errorf("%s: %+v", v.PVName, v.Finding)
		}
	}
	// The disk of node-01 was copied, its pool's UUID too, and the copy is in node-02.
	l = newLost(t, 1)
	copied := agents.Planned{Agent: l.plan.Agent, Plan: recovery.Plan{Pools: l.plan.Pools, Volumes: []recovery.Volume{planned("pvc-0", "data-0")}}}
	copied.Agent.Node, copied.Volumes[0].Objects.PV.Labels[contract.LabelNode] = "node-02", "node-02"
	all, err = l.Decide(t.Context(), []agents.Planned{l.plan, copied})
	l.must(err)
	if len(all) != 2 || all[0].Verdict != recovery.Left || all[1].Verdict != recovery.Left || !strings.Contains(all[1].Why, "on node node-01 is of") {
		t.Errorf("a copy of the pool: %d volumes, %+v", len(all), all[0].Finding)
	}
	deleted := planned("pvc-9", "data-9").Objects.PV
	deleted.Spec.ClaimRef.UID, deleted.Status.Phase = "x", corev1.VolumeBound
	elsewhere := planned("pvc-8", "data-8").Objects.PV
	elsewhere.Annotations[contract.AnnPool] = "not read"
	l = newLost(t, 0, deleted, elsewhere)
	all, err = l.Decide(t.Context(), []agents.Planned{l.plan})
	if err != nil || len(all) != 1 || all[0].PVName != "pvc-9" || all[0].Verdict != recovery.Left || !strings.Contains(all[0].Why, "no such volume") {
		t.Errorf("%+v, %v", all, err)
	}
	l = newLost(t, 2)
	l.plan.Volumes[1].Namespace = "other"
	l.Namespace = "shop"
	if all, err := l.Decide(t.Context(), []agents.Planned{l.plan, l.plan}); err != nil || len(all) != 1 { // of two pods of one node
		t.Errorf("%d volumes, %v", len(all), err)
	}
}

// The namespace is made again, by another tenant, after it was read and before the claim is written. The
// next run decides anew.
func TestRecoverInNamespaceThatIsMadeAgain(t *testing.T) {
	l := newLost(t, 1)
	l.plan.Volumes[0].Cluster, l.plan.Volumes[0].NamespaceUID = "new", "first"
	made := func(uid types.UID) {
		l.must(l.objects.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: uid, CreationTimestamp: metav1.NewTime(created.Add(-time.Hour))}}, ""))
	}
	made("first")
	l.objects.PrependReactor("create", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		made("second")
		return false, nil, nil
	})
	for i, want := range []string{"made again meanwhile", ""} {
		all := l.run()
		if _, err := l.objects.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("run %d: the later tenant has a PV of the volume: %v", i, err)
		}
		if !strings.Contains(all[0].Failed, want) || i == 1 && !strings.Contains(all[0].Why, "another tenant") {
			t.Errorf("run %d: %q, %+v", i, all[0].Failed, all[0].Finding)
		}
	}
}

// The lost cluster had a namespace twice, and kept a volume of its earlier tenant: the later one's claims are
// made, and the earlier volume is left, also by the next run, to which the others are of this cluster.
func TestRecoverEarlierTenant(t *testing.T) {
	l := newLost(t, 2)
	for i, uid := range []string{"first", "second"} {
		v := &l.plan.Volumes[i]
		v.NamespaceUID, v.ClaimCreated = uid, created.Add(time.Duration(i)*time.Hour)
		recovery.NoteNamespace(v.Objects.PV, *v, l.Options)
	}
	for i := range 2 {
		all := l.run()
		if all[0].Verdict != recovery.Left || !strings.Contains(all[0].Why, "-n shop --to-namespace=shop") || all[1].Failed != "" {
			t.Errorf("run %d: %+v, and the later tenant's %+v %s", i, all[0].Finding, all[1].Finding, all[1].Failed)
		}
		l.plan.Volumes[1].NamespaceUID = "here"
	}
	if pv := l.pv("pvc-1"); pv.Status.Phase != corev1.VolumeBound {
		t.Errorf("the later tenant's PV is %s", pv.Status.Phase)
	}
}

// The policy waits until the agent has recorded the claim, and stays Retain for a claim that goes.
func TestPolicyWaits(t *testing.T) {
	l := newLost(t, 1)
	all := l.run()
	pv := l.pv("pvc-0")
	pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations[contract.AnnFormerPolicy] = corev1.PersistentVolumeReclaimRetain, "Delete"
	l.must(l.objects.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	old := l.plan
	old.Volumes = []recovery.Volume{planned("pvc-0", "data-0")}
	if n := l.Policies(over, all, func(context.Context) []agents.Planned { return []agents.Planned{old} }); n != 1 {
		t.Errorf("not recorded: %d wait", n)
	}
	if got := l.pv("pvc-0").Spec.PersistentVolumeReclaimPolicy; got != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("not recorded: policy %s", got)
	}
	l.run()
	l.bound("recorded")
}

// What a pod with an agent's labels prints is no reason to make a PV: its account must be one that
// makes PVs, and the objects must be the volume's alone.
func TestHostilePlan(t *testing.T) {
	for what, allowed := range map[string]bool{"an agent": true, "a tenant's pod": false} {
		l := newLost(t, 1)
		l.objects.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			review.Status.Allowed = allowed && review.Spec.User == "system:serviceaccount:hpp:sa" && review.Spec.ResourceAttributes.Resource == "persistentvolumes"
			return true, review, nil
		})
		if why := l.Trusted(t.Context(), l.plan.Agent); (why == "") != allowed {
			t.Errorf("%s: %q", what, why)
		}
	}
	for what, edit := range map[string]func(*recovery.Objects){
		"another directory": func(o *recovery.Objects) {
			o.PV.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}
		},
		"a directory above": func(o *recovery.Objects) {
			o.PV.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/pool/../etc"}}
		},
		"an NFS server":  func(o *recovery.Objects) { o.PV.Spec.NFS = &corev1.NFSVolumeSource{} },
		"another driver": func(o *recovery.Objects) { o.PV.Spec.CSI.Driver = "example.com" },
		"a secret":       func(o *recovery.Objects) { o.PV.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{} },
		"another handle": func(o *recovery.Objects) { o.PV.Spec.CSI.VolumeHandle = "pvc-9" },
		"another node":   func(o *recovery.Objects) { o.PV.Labels[contract.LabelNode] = "node-02" },
		"another pool":   func(o *recovery.Objects) { o.PV.Annotations[contract.AnnPool] = "other" },
		"another PV":     func(o *recovery.Objects) { o.PV.Name = "pvc-9" },
		"policy Delete":  func(o *recovery.Objects) { o.PV.Spec.PersistentVolumeReclaimPolicy = "Delete" },
		"an owner":       func(o *recovery.Objects) { o.PV.OwnerReferences = []metav1.OwnerReference{{}} },
		"a finalizer":    func(o *recovery.Objects) { o.Claim.Finalizers = []string{"x"} },
		"another claim":  func(o *recovery.Objects) { o.Claim.Name = "other" },
		"its claimRef":   func(o *recovery.Objects) { o.PV.Spec.ClaimRef.Namespace = "kube-system" },
		"its namespace":  func(o *recovery.Objects) { o.Claim.Namespace = "kube-system" },
		"a data source":  func(o *recovery.Objects) { o.Claim.Spec.DataSource = &corev1.TypedLocalObjectReference{} },
		"an annotation":  func(o *recovery.Objects) { o.Claim.Annotations = map[string]string{"cdi.kubevirt.io/x": "y"} },
		"no PV":          func(o *recovery.Objects) { o.PV = nil },
	} {
		l := newLost(t, 1)
		edit(l.plan.Volumes[0].Objects)
		if all := l.run(); all[0].Verdict != recovery.Left || l.writes != 0 {
			t.Errorf("%s: %+v, %d writes", what, all[0].Finding, l.writes)
		}
	}
}
