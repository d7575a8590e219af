package suite

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The policy of manifests/examples/inline-policy refuses pods with inline volumes of the driver, in
// namespaces without the label, and no others.
func TestInlinePolicy(t *testing.T) {
	t.Parallel()
	e := ownPlane(t)
	if err := e.Apply("examples/inline-policy"); err != nil {
		t.Fatal(err)
	}
	s := e.Scene(t)
	create := func(driver string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "inline-", Namespace: s.Namespace}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "localhost/hpp-e2e/pause:latest"}},
			Volumes:    []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}
		if driver != "" {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: map[string]string{"size": "1Ti"}}}})
		}
		_, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const driver = "kubevirt.io.hostpath-provisioner"
	s.Eventually("refused", func() error {
		switch err := create(driver); {
		case err == nil:
			return errors.New("admitted")
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "hostpath-provisioner-inline-volumes=allowed"):
			return err
		}
		return nil
	})
	for _, other := range []string{"", "csi.example.com"} {
		if err := create(other); err != nil {
			t.Errorf("driver %q: %v", other, err)
		}
	}
	label := []byte(`{"metadata":{"labels":{"hostpath-provisioner-inline-volumes":"allowed"}}}`)
	if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), s.Namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("allowed", func() error { return create(driver) })
}
