package admission

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// A pool that PVs name does not go, and the answer names them.
func TestUsedPoolStays(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1", Annotations: map[string]string{contract.AnnProvisionedBy: contract.CSIProvisioner}},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: contract.CSIProvisioner, VolumeHandle: "x", VolumeAttributes: map[string]string{contract.StoragePool: "a"}}}}}
	raw := func(pool string) runtime.RawExtension {
		text, err := json.Marshal(v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: pool, Path: "/" + pool}}}})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: text}
	}
	v := &Validator{Cache: installedtest.Cached(fake.NewClientBuilder().WithObjects(pv).Build()), Namespace: "ns"}
	answer := v.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, OldObject: raw("a"), Object: raw("b")}})
	if answer.Allowed || !strings.Contains(answer.Result.Message, "pv-1") {
		t.Errorf("allowed %v: %v", answer.Allowed, answer.Result)
	}
}
