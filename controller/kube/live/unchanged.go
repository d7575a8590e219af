package live

import (
	"context"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Unchanged returns options that delete the object as it was read: the API server answers
// with a conflict if the object was written since, or if another one has its name.
func Unchanged(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// UnchangedPatch returns a merge patch that changes fields of an object's metadata and spec, as the
// object was read: the API server answers with a conflict if it was written since, or if another one
// has its name. A nil map changes nothing; a nil value removes a field.
func UnchangedPatch(o metav1.Object, meta, spec map[string]any) ([]byte, error) {
	of := map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion()}
	maps.Copy(of, meta)
	change := map[string]any{"metadata": of}
	if spec != nil {
		change["spec"] = spec
	}
	return json.Marshal(change)
}

// PatchPV sends UnchangedPatch of a PV. The error is the client's.
func PatchPV(ctx context.Context, client kubernetes.Interface, pv *corev1.PersistentVolume,
	meta, spec map[string]any, o metav1.PatchOptions) error {
	patch, err := UnchangedPatch(pv, meta, spec)
	if err == nil {
		_, err = client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, o)
	}
	return err
}
