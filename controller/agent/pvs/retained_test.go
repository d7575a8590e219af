package pvs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const nextUID = "9f8e7d6c-5b4a-3928-1706-f5e4d3c2b1a0"

// retained is a volume whose first claim is gone, and whose PV is bound to the next claim.
type retained struct {
	*PVs
	seen *corev1.PersistentVolume // in the store
	now  *corev1.PersistentVolume // at the API server; nil if it is gone
	// first and next are the claims at the API server; nil if they are gone.
	first, next *corev1.PersistentVolumeClaim
	pods        []*corev1.Pod
	pool        *volume.Pool
	name        string
}

func newRetained(t *testing.T, className string) *retained {
	t.Helper()
	k := &retained{PVs: newPVs(t)}
	k.seen = validPV(k.PVs, className)
	k.seen.UID, k.seen.CreationTimestamp, k.seen.Status.Phase = "pv-uid", metav1.Now(), corev1.VolumeBound
	k.pool, k.name = k.backendOf(k.seen).PoolOf(k.seen)
	if _, err := k.pool.Create(volume.Spec{Name: k.name, Bytes: 1, PV: k.seen.Name, Owner: ownerOf(k.seen), Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	k.seen.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "elsewhere", Name: "restored", UID: nextUID}
	k.next = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "restored", UID: nextUID}}
	k.next.Spec.VolumeName = k.seen.Name
	k.now = k.seen.DeepCopy()
	return k
}

// both changes the PV in the store and at the API server.
func (k *retained) both(edit func(*corev1.PersistentVolume)) {
	edit(k.seen)
	edit(k.now)
}

func (k *retained) release() {
	k.next = nil
	k.both(func(pv *corev1.PersistentVolume) {
		pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
	})
}

// hadIt has the volume given to a third claim after the next one, which the PV names again, as when
// etcd is restored from a backup.
func (k *retained) hadIt() {
	k.mustTransfer()
	later := k.binding(k.seen, record.Owner{Namespace: "elsewhere", Name: "later", UID: testUID})
	if err := k.pool.Transfer(k.name, nextUID, later); err != nil {
		panic(err)
	}
}

// serve replaces the API server by one with the current objects.
func (k *retained) serve(t *testing.T) {
	t.Helper()
	var all []metav1.Object
	if k.now != nil {
		all = append(all, k.now)
	}
	for _, c := range []*corev1.PersistentVolumeClaim{k.first, k.next} {
		if c != nil {
			all = append(all, c)
		}
	}
	for _, pod := range k.pods {
		all = append(all, pod)
	}
	setObjects(t, k.PVs, all...)
}

// runs adds a pod of the first claim on a node.
func (k *retained) runs(node string, phase corev1.PodPhase) {
	firstClaim(k)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.first.Namespace, Name: "importer"}}
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: k.first.Name}}}}
	k.pods = append(k.pods, pod)
}

// reconcileClaim reconciles the PV in the store, and returns the UID of the volume's claim
// afterwards.
func (k *retained) reconcileClaim(t *testing.T) (owner string, err error) {
	t.Helper()
	v, err := k.pool.Get(k.name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.PVs.reconcileClaim(t.Context(), k.backendOf(k.seen), k.seen, k.pool, v)
	v, getErr := k.pool.Get(k.name)
	if getErr != nil {
		t.Fatal(getErr)
	}
	return v.Owner.UID, err
}

func firstClaim(k *retained) {
	k.first = classtest.Claim(testUID, "wait", "")
	k.first.Spec.VolumeName = k.seen.Name
}

func (k *retained) mustTransfer() {
	if err := k.pool.Transfer(k.name, testUID, k.binding(k.seen, ownerOf(k.seen))); err != nil {
		panic(err)
	}
}

func (k *retained) mustDelete() {
	if err := k.pool.Delete(k.name); err != nil {
		panic(err)
	}
}
