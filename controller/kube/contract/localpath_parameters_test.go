package contract

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What newer versions of the local-path provisioner offer is served, or refused with words: it is
// never ignored.
func TestLocalPathParameters(t *testing.T) {
	all, err := ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for what, row := range map[string]struct {
		parameters map[string]string
		words      string // of the refusal, "" if it is served
	}{
		"numbers":           {map[string]string{"userPattern": "1000", "groupPattern": "1001", "permPattern": "0700"}, ""},
		"a template":        {map[string]string{"userPattern": "{{ .PVC.Annotations.uid }}"}, "userPattern"},
		"another mode":      {map[string]string{"permPattern": "rwx"}, "permPattern"},
		"the hostname":      {map[string]string{"nodeAffinityKey": corev1.LabelHostname}, ""},
		"another label":     {map[string]string{"nodeAffinityKey": "example.com/machine-id"}, "nodeAffinityKey"},
		"a key of no use":   {map[string]string{"allowUnsafePathPattern": "true"}, ""},
		"another directory": {map[string]string{"pathPattern": "{{ .PVC.Namespace }}/{{ .PVC.Name }}/{{ .PVName }}"}, "pathPattern"},
	} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: all[0].Provisioner, Parameters: row.parameters}
		p, err := ParametersOf(class)
		if err == nil {
			err = all[0].Check(claim, class)
		}
		if (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v, want %q", what, err, row.words)
		}
		if what == "numbers" && (p.Spec.Mode != 0o700 || p.Spec.UID != 1000 || p.Spec.GID != 1001) {
			t.Errorf("mode %v, uid %d, gid %d", p.Spec.Mode, p.Spec.UID, p.Spec.GID)
		}
	}
}
