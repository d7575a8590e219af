package nodechoice

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The scheduler may have tried the pod with what it remembered of the claim, so the claim changes once more,
// if nobody has changed it since.
func TestSchedulerIsWoken(t *testing.T) {
	for name, row := range map[string]struct {
		without bool // the controller-manager had not asked for the volume
		changed bool // since the claim was given back
		older   bool // the policies forbid it
		ended   bool // the process
		want    []string
	}{
		"nobody changes it": {want: []string{contract.AnnSelectedNode, contract.AnnStorageProvisioner}},
		"chosen again":      {changed: true, want: []string{contract.AnnSelectedNode, contract.AnnStorageProvisioner}},
		"not asked for":     {without: true, want: []string{contract.AnnSelectedNode}},
		"older policies":    {older: true, want: []string{contract.AnnSelectedNode, contract.AnnStorageProvisioner}},
		"the process ends":  {ended: true, want: []string{contract.AnnSelectedNode}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := classtest.Claim("a", "csi", "", contract.AnnSelectedNode, "node-01", "tenant", "kept")
				there.ResourceVersion = "7"
				if !row.without {
					there.Annotations[contract.AnnStorageProvisioner] = "p"
				}
				client := fake.NewClientset(there)
				var wrote []string
				client.PrependReactor("patch", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
					patch := string(a.(clienttesting.PatchAction).GetPatch())
					for _, key := range []string{contract.AnnSelectedNode, contract.AnnStorageProvisioner} {
						if strings.Contains(patch, `"`+key+`":null`) {
							wrote = append(wrote, key)
						}
					}
					if !strings.Contains(patch, `"resourceVersion":"`) || !strings.Contains(patch, `"uid":"a"`) {
						t.Errorf("patch %s does not name what was read", patch)
					}
					switch {
					case len(wrote) < 2:
						return false, nil, nil
					case row.changed: // the fake client does not compare
						return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}}
					case row.older:
						return true, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), there.Name, nil)
					}
					return false, nil, nil
				})
				ctx, end := context.WithCancel(t.Context())
				defer end()
				given, err := Unchoose(ctx, client, there)
				if err != nil {
					t.Fatal(err)
				}
				if row.ended {
					end()
				}
				time.Sleep(wakeAfter - 1)
				if len(wrote) != 1 {
					t.Errorf("too early: %q", wrote)
				}
				given.Annotations = nil // the caller's
				time.Sleep(time.Minute)
				if !slices.Equal(wrote, row.want) {
					t.Errorf("removed %q, want %q", wrote, row.want)
				}
				now, err := client.CoreV1().PersistentVolumeClaims(there.Namespace).Get(t.Context(), there.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				_, asked := now.Annotations[contract.AnnStorageProvisioner]
				if woken := len(row.want) == 2 && !row.changed && !row.older; asked == (woken || row.without) || now.Annotations["tenant"] != "kept" {
					t.Errorf("annotations %v", now.Annotations)
				}
			})
		})
	}
}
