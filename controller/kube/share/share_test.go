package share_test

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/controller/kube/share"
)

// decode returns an object as a response of the API server has it, in memory of its own.
func decode[T interface{ Unmarshal([]byte) error }](t *testing.T, from interface{ Marshal() ([]byte, error) }, to T) T {
	t.Helper()
	data, err := from.Marshal()
	if err == nil {
		err = to.Unmarshal(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func pvOf(t *testing.T, size string) *corev1.PersistentVolume {
	t.Helper()
	uid := types.UID(uuid.NewUUID())
	name := "pvc-" + string(uid)
	mode := corev1.PersistentVolumeFilesystem
	return decode(t, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uuid.NewUUID()), ResourceVersion: "123456",
			Labels: map[string]string{"hostpath-provisioner.kubevirt.io/node": "node-01"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "kubevirt.io.hostpath-provisioner",
				"hostPathProvisionerIdentity":                    "kubevirt.io.hostpath-provisioner",
				"hostpath-provisioner.kubevirt.io/pool":          "8a1f8a1f-8a1f-8a1f-8a1f-8a1f8a1f8a1f",
				"hostpath-provisioner.kubevirt.io/cluster":       "9a1f8a1f-8a1f-8a1f-8a1f-8a1f8a1f8a1f",
				"hostpath-provisioner.kubevirt.io/node-uid":      "7a1f8a1f-8a1f-8a1f-8a1f-8a1f8a1f8a1f",
				"volume.kubernetes.io/provisioner-deletion-name": ""},
			Finalizers: []string{"external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "hostpath-csi",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: name,
				Driver: "kubevirt.io.hostpath-provisioner", FSType: "xfs", VolumeAttributes: map[string]string{"storagePool": "local"}}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "shop", Name: "data-" + string(uid),
				UID: uid, ResourceVersion: "123455"},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.hostpath.csi/node", Operator: corev1.NodeSelectorOpIn,
					Values: []string{"node-01"}}}}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}, &corev1.PersistentVolume{})
}

func claimOf(t *testing.T, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	t.Helper()
	class := pv.Spec.StorageClassName
	return decode(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pv.Spec.ClaimRef.Name, UID: pv.Spec.ClaimRef.UID, ResourceVersion: "123457",
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": "node-01",
				"volume.kubernetes.io/storage-provisioner": "kubevirt.io.hostpath-provisioner"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: pv.Spec.AccessModes, Capacity: pv.Spec.Capacity,
			AllocatedResources: pv.Spec.Capacity},
	}, &corev1.PersistentVolumeClaim{})
}

// Claim and PV of a volume take little memory in the caches of its node.
func TestSharedObjectsAreSmall(t *testing.T) {
	const n, most = 2000, 2600
	var s share.Sharer
	kept := make([]any, 0, 2*n)
	before := live()
	for i := range n {
		pv := pvOf(t, fmt.Sprintf("%dGi", 1+i%10))
		claim := claimOf(t, pv)
		s.PV(pv)
		s.Claim(claim)
		kept = append(kept, pv, claim)
	}
	each := (live() - before) / n
	t.Logf("%d bytes a volume", each)
	if each > most {
		t.Errorf("claim and PV take %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(kept)
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is shared is the same as before, and objects that differ stay different.
func TestSharedObjectsAreTheSame(t *testing.T) {
	var s share.Sharer
	long := strings.Repeat("x", 5000)
	for i := range 3000 { // more than are shared
		pv := pvOf(t, fmt.Sprintf("%dMi", 1+i))
		pv.Annotations["tenant"] = fmt.Sprint(i)
		if i%10 == 0 {
			pv.Annotations["tenant"], pv.Spec.StorageClassName = long, long
		}
		if i%3 == 0 {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = fmt.Sprint("node-", i)
		}
		claim := claimOf(t, pv)
		wantPV, wantClaim := pv.DeepCopy(), claim.DeepCopy()
		s.PV(pv)
		s.Claim(claim)
		if !reflect.DeepEqual(pv, wantPV) || !reflect.DeepEqual(claim, wantClaim) {
			t.Fatalf("%d: shared\n%+v\n%+v, want\n%+v\n%+v", i, pv, claim, wantPV, wantClaim)
		}
	}
	s.PV(&corev1.PersistentVolume{})
	s.Claim(&corev1.PersistentVolumeClaim{})
}
