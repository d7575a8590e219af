package contract

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A record keeps what PV and claim are made again from, and no annotation of another program.
func TestRecorded(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{
		AnnProvisionOnNode: "node-01", AnnMigrated: "uid", AnnSelectedNode: "node-01", "pv.kubernetes.io/bind-completed": "yes",
		"cdi.kubevirt.io/storage.import.endpoint": "https://images", "kubectl.kubernetes.io/last-applied-configuration": "{}",
	}}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnProvisionedBy: HostPathProvisioner}}}
	pv.Spec.StorageClassName, pv.Spec.MountOptions = "fast", []string{"noatime"}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
	want := &record.Claim{NamespaceUID: "ns", Provisioner: HostPathProvisioner, Class: "fast", AccessModes: []string{"ReadWriteOnce", "ReadWriteMany"},
		MountOptions: []string{"noatime"}, Request: 1 << 30, Labels: map[string]string{"app": "db"}, Annotations: map[string]string{AnnProvisionOnNode: "node-01"}}
	if got := Recorded(pv, claim, "ns"); !got.Equal(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: CSIProvisioner, FSType: "xfs"}
	claim.Annotations[AnnProvisionOnNode] = string(slices.Repeat([]byte("x"), record.MaxClaim))
	want.Provisioner, want.FSType, want.Annotations, want.Omitted = CSIProvisioner, "xfs", nil, []string{"annotations"}
	if got := Recorded(pv, claim, "ns"); !got.Equal(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
