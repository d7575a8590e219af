package suite

import (
	"strconv"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An API server keeps the field of manifests/examples/driver-first from Kubernetes 1.37 on. An older one refuses it, as
// kubectl asks it to, so manifests/csi does not set it.
func TestDriverFirst(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	version, err := s.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(strings.TrimSuffix(version.Minor, "+"))
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	got, err := s.Client.StorageV1().CSIDrivers().Create(s.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &no, PreventPodSchedulingIfMissing: &yes},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	kept := err == nil && got.Spec.PreventPodSchedulingIfMissing != nil && *got.Spec.PreventPodSchedulingIfMissing
	switch {
	case minor >= 37 && !kept:
		t.Errorf("Kubernetes 1.%d: %+v, %v", minor, got, err)
	case minor < 36 && (err == nil || !strings.Contains(err.Error(), "unknown field")):
		t.Errorf("Kubernetes 1.%d: %+v, %v, want that the field is unknown", minor, got, err)
	}
}
