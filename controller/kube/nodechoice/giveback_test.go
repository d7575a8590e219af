package nodechoice

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The caller's copy of the claim is not all of it: nothing else of it is written, with an
// older ClusterRole neither, and a claim that was changed since is not written at all.
func TestUnchoose(t *testing.T) {
	for name, row := range map[string]struct {
		older   bool // the ClusterRole has no patch
		edit    func(*corev1.PersistentVolumeClaim)
		changed bool
	}{
		"patched":                 {},
		"updated":                 {older: true},
		"patched, changed since":  {edit: func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "8" }, changed: true},
		"updated, changed since":  {older: true, edit: func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "8" }, changed: true},
		"updated, another's name": {older: true, edit: func(c *corev1.PersistentVolumeClaim) { c.UID = "b" }, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			there := classtest.Claim("a", "csi", "", contract.AnnSelectedNode, "node-01", "tenant", "kept")
			there.ResourceVersion, there.Labels = "7", map[string]string{"app": "db"}
			copied := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: there.Namespace, Name: there.Name, UID: there.UID, ResourceVersion: "7"}}
			if row.edit != nil {
				row.edit(there)
			}
			client := fake.NewClientset(there)
			client.PrependReactor("patch", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
				patch := string(a.(clienttesting.PatchAction).GetPatch())
				switch {
				case row.older:
					return true, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), there.Name, nil)
				case !strings.Contains(patch, `"resourceVersion":"7"`), !strings.Contains(patch, `"uid":"a"`):
					t.Errorf("patch %s does not name what was read", patch)
				case row.changed: // the fake client does not compare
					return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}}
				}
				return false, nil, nil
			})
			_, err := Unchoose(t.Context(), client, copied)
			if apierrors.IsConflict(err) != row.changed || err != nil && !row.changed {
				t.Errorf("%v, want a conflict: %v", err, row.changed)
			}
			now, err := client.CoreV1().PersistentVolumeClaims(there.Namespace).Get(t.Context(), there.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, chosen := now.Annotations[contract.AnnSelectedNode]; chosen != row.changed {
				t.Errorf("still chosen: %v", chosen)
			}
			if now.Annotations["tenant"] != "kept" || now.Labels["app"] != "db" || now.Spec.StorageClassName == nil {
				t.Errorf("more was written: annotations %v, labels %v", now.Annotations, now.Labels)
			}
		})
	}
}

// A node chooses itself in place of another one, with an older ClusterRole, too.
func TestChoose(t *testing.T) {
	for _, older := range []bool{false, true} {
		there := classtest.Claim("a", "csi", "", contract.AnnSelectedNode, "node-02", "tenant", "kept")
		there.ResourceVersion = "7"
		client := fake.NewClientset(there)
		client.PrependReactor("patch", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
			patch := string(a.(clienttesting.PatchAction).GetPatch())
			if !strings.Contains(patch, `"resourceVersion":"7"`) || !strings.Contains(patch, `"uid":"a"`) {
				t.Errorf("patch %s does not name what was read", patch)
			}
			return older, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), there.Name, nil)
		})
		if err := Choose(t.Context(), client, there, "node-01"); err != nil {
			t.Fatalf("older role %v: %v", older, err)
		}
		now, err := client.CoreV1().PersistentVolumeClaims(there.Namespace).Get(t.Context(), there.Name, metav1.GetOptions{})
		if err != nil || now.Annotations[contract.AnnSelectedNode] != "node-01" || now.Annotations["tenant"] != "kept" {
			t.Errorf("older role %v: %v, %v", older, now.Annotations, err)
		}
	}
}
