package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The command leaves the finalizers of Kubernetes and of other controllers.
func TestToDropFinalizer(t *testing.T) {
	command := ToDropFinalizer("pvc-1")
	patch, found := strings.CutPrefix(command, "kubectl patch pv pvc-1 -p '")
	if !found || !strings.HasSuffix(patch, "'") {
		t.Fatal(command)
	}
	pv := corev1.PersistentVolume{}
	pv.Finalizers = []string{"kubernetes.io/pv-protection", Finalizer, "example.com/backup"}
	had, err := json.Marshal(pv)
	if err == nil {
		had, err = strategicpatch.StrategicMergePatch(had, []byte(strings.TrimSuffix(patch, "'")), pv)
	}
	var now corev1.PersistentVolume
	if err == nil {
		err = json.Unmarshal(had, &now)
	}
	if err != nil || !slices.Equal(now.Finalizers, []string{"kubernetes.io/pv-protection", "example.com/backup"}) {
		t.Errorf("%q, %v", now.Finalizers, err)
	}
}
