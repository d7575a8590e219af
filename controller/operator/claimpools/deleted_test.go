package claimpools

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

const onN1 = "hpp-pool-p-n1"

// claim returns the claim of the pool on n1, nil if there is none.
func (c *cluster) claim() *corev1.PersistentVolumeClaim {
	c.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: "ns", Name: onN1}, claim); client.IgnoreNotFound(err) != nil {
		c.Fatal(err)
	} else if err != nil {
		return nil
	}
	return claim
}

func (c *cluster) disk() *corev1.PersistentVolume {
	c.Helper()
	pv := &corev1.PersistentVolume{}
	if err := c.Get(c.Context(), client.ObjectKey{Name: "disk"}, pv); err != nil {
		c.Fatal(err)
	}
	return pv
}

// diskOf is the PV of the claim.
func diskOf(claim types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{StorageClassName: "fast",
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "ns", Name: onN1, UID: claim}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
}

// mistaken returns a cluster whose pool is mounted and has a volume, if used, and whose claim was
// deleted. pod is the holder's.
func mistaken(t *testing.T, used bool) (c *cluster, w objects.Desired, pod *corev1.Pod) {
	t.Helper()
	c = objectsOf(t, nodeNamed("n1", corev1.ConditionTrue))
	w = poolP()
	w.Nodes, w.Agents = w.Nodes[:1], 1
	c.pass(w)
	claim := c.claim()
	claim.Spec.VolumeName, claim.Finalizers = "disk", []string{"kubernetes.io/pvc-protection"}
	if err := c.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if used {
		c.create(volumeOn("n1"))
	}
	c.create(diskOf(claim.UID))
	c.bound()
	c.runs()
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "holder", CreationTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Hour)),
		Labels: map[string]string{objects.HolderLabel: objects.LabelOf("p")}}, Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	c.create(pod)
	c.pass(w)
	if err := c.Delete(t.Context(), c.claim()); err != nil {
		t.Fatal(err)
	}
	return c, w, pod
}

// While a holder lives, its PV has Retain, and gets its policy back when the holder ends, unless the
// claim is being deleted.
func TestPolicyOfTheDisk(t *testing.T) {
	for _, row := range []struct {
		deleted bool
		policy  corev1.PersistentVolumeReclaimPolicy
	}{{false, "Delete"}, {true, "Delete"}, {false, "Retain"}, {true, "Retain"}} { // Retain as of raw disks
		deleted := row.deleted
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
		c.pass(poolP())
		claim := c.claim()
		claim.Spec.VolumeName, claim.Finalizers = "disk", []string{"kubernetes.io/pvc-protection"}
		if err := c.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		disk := diskOf(claim.UID)
		disk.Spec.PersistentVolumeReclaimPolicy = row.policy
		c.create(disk)
		c.bound()
		c.runs()
		c.pass(poolP())
		held := contract.HeldPool{Node: "n1", Pool: "p", Path: poolP().Pools[0].Path}.String()
		if pv := c.disk(); pv.Spec.PersistentVolumeReclaimPolicy != "Retain" || pv.Annotations[contract.AnnHeldPool] != held ||
			(pv.Annotations[contract.AnnPoolPolicy] == "Delete") != (row.policy == "Delete") {
			t.Errorf("while the holder lives: %s, %v", pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
		}
		want := string(row.policy)
		if deleted {
			want = "Retain"
			if err := c.Delete(t.Context(), c.claim()); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			c.runs()
			c.pass(objects.Desired{Settled: true})
		}
		if pv := c.disk(); c.holder(onN1) != nil || string(pv.Spec.PersistentVolumeReclaimPolicy) != want {
			t.Errorf("claim deleted %v: after the holder's end %s", deleted, pv.Spec.PersistentVolumeReclaimPolicy)
		} else if _, still := pv.Annotations[contract.AnnHeldPool]; still != deleted {
			t.Errorf("claim deleted %v: after the holder's end the PV has %v", deleted, pv.Annotations)
		}
	}
}

// The disk of a Node that is gone keeps Retain when its holder ends: a volume that was released with the
// node lies on it, and the claim may be deleted by mistake.
func TestPolicyOfTheDiskOfALostNode(t *testing.T) {
	for _, gone := range []bool{false, true} {
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
		c.pass(poolP())
		claim := c.claim()
		claim.Spec.VolumeName = "disk"
		if err := c.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		c.create(diskOf(claim.UID))
		c.bound()
		c.runs()
		c.pass(poolP())
		if gone {
			if err := c.Delete(t.Context(), nodeNamed("n1", corev1.ConditionTrue)); err != nil {
				t.Fatal(err)
			}
		}
		want := map[bool]string{false: "Delete", true: "Retain"}[gone]
		for range 6 {
			c.runs()
			c.pass(objects.Desired{Settled: true})
		}
		pv := c.disk()
		if c.holder(onN1) != nil || string(pv.Spec.PersistentVolumeReclaimPolicy) != want || (pv.Annotations[contract.AnnHeldPool] != "") != gone {
			t.Errorf("gone %v: holder %v, policy %s, %v", gone, c.holder(onN1) != nil, pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
		}
	}
}

// A holder whose claim is being deleted stays as it is while its pod has the claim. When a pod
// cannot mount it, as after a boot, it ends, and the claim is made again for the same PV.
func TestClaimDeletedByMistake(t *testing.T) {
	c, w, pod := mistaken(t, true)
	c.k.Image = "image:v2" // an upgrade
	for range 3 {
		c.pass(w)
	}
	if d := c.holder(onN1); d.Spec.Template.Spec.Containers[0].Image != "image:v1" || *d.Spec.Replicas != 1 {
		t.Errorf("the holder is changed: image %s, %d replicas", d.Spec.Template.Spec.Containers[0].Image, *d.Spec.Replicas)
	}
	pod = pod.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	d := c.holder(onN1)
	d.Status.ReadyReplicas = 0
	if err := c.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int32{1, 0} { // a container that crashes has its volumes
		if err := c.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		c.pass(w)
		c.wantReplicas("n1", want)
		pod.Status.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating"
	}
	claim := c.claim()
	claim.Finalizers = nil
	for _, err := range []error{c.Delete(t.Context(), pod), c.Update(t.Context(), claim)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.pass(w)
	if claim := c.claim(); claim == nil || claim.Spec.VolumeName != "disk" || *claim.Spec.StorageClassName != "fast" {
		t.Fatalf("claim %+v", claim)
	}
	if ref := c.disk().Spec.ClaimRef; ref == nil || ref.Name != onN1 || ref.UID != "" {
		t.Errorf("the PV has the claimRef %+v", ref)
	}
	c.bound()
	c.pass(w)
	c.wantReplicas("n1", 1)
	if h := c.recorded()[onN1]; h.ClaimUID != c.claim().UID || h.Volume != "disk" {
		t.Errorf("record %+v", h)
	}
}

// A claim and its PV are gone. While volumes use the pool there is no other PV, which would hide that
// they are lost.
func TestDiskLost(t *testing.T) {
	for _, used := range []bool{false, true} {
		c, w, _ := mistaken(t, used)
		claim, pv := c.claim(), c.disk()
		claim.Finalizers = nil
		for _, err := range []error{c.Update(t.Context(), claim), c.Delete(t.Context(), pv)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		r := c.pass(w)
		if text := strings.Join(r.States[0].Problems, "; "); (c.claim() == nil) != used || used && !strings.Contains(text, "is gone, and so is its PV disk") {
			t.Errorf("used %v: claim %v, problems %s", used, c.claim(), text)
		}
	}
}
