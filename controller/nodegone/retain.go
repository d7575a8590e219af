package nodegone

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// retained reports whether no agent deletes the directory of the PV, now or at the end of a migration.
func retained(pv *corev1.PersistentVolume) bool {
	return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && pv.Annotations[class.AnnPolicy] == ""
}

// retain sets the PV's reclaim policy to Retain and notes the former one. It takes the annotation of a migration with it, which
// would restore the former policy by itself.
func (r *Reconciler) retain(ctx context.Context, pv *corev1.PersistentVolume, h home) error {
	if why, err := r.gone(ctx, h); why == "" || err != nil {
		return err
	}
	former := map[string]any{class.AnnFormerPolicy: class.Policy(pv)}
	if pv.Annotations[class.AnnPolicy] != "" {
		former[class.AnnPolicy] = nil
	}
	return r.patch(ctx, pv, map[string]any{"annotations": former}, map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain})
}

// restore gives a PV the reclaim policy back that retain noted. It does nothing unless the node is back, the PV is Bound, and its
// claim is not being deleted: otherwise the policy stays Retain for good, and an administrator decides about the directory.
func (r *Reconciler) restore(ctx context.Context, cached *corev1.PersistentVolume) error {
	pv, err := live.PV(ctx, r.Live, cached.Name)
	if pv == nil || err != nil {
		return err
	}
	former := pv.Annotations[class.AnnFormerPolicy]
	if former == "" || pv.DeletionTimestamp != nil || pv.Status.Phase != corev1.VolumeBound {
		return nil
	}
	h, ok := homeOf(pv)
	if !ok {
		return nil
	}
	if why, err := r.gone(ctx, h); why != "" || err != nil {
		return err
	}
	claim, err := r.claimOf(ctx, pv)
	if claim == nil || claim.DeletionTimestamp != nil || err != nil {
		return err
	}
	spec := map[string]any{}
	if former == string(corev1.PersistentVolumeReclaimDelete) && retained(pv) {
		spec["persistentVolumeReclaimPolicy"] = former
	}
	return r.patch(ctx, pv, map[string]any{"annotations": map[string]any{class.AnnFormerPolicy: nil}}, spec)
}

// patch changes fields of a PV's metadata and of its spec. It does nothing if the PV is gone, or was written since it was read.
func (r *Reconciler) patch(ctx context.Context, pv *corev1.PersistentVolume, meta, spec map[string]any) error {
	meta["uid"], meta["resourceVersion"] = pv.UID, pv.ResourceVersion
	change := map[string]any{"metadata": meta}
	if len(spec) > 0 {
		change["spec"] = spec
	}
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = r.Live.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, data, metav1.PatchOptions{})
	return ignoreMoved(err)
}
