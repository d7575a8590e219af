package resize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

type target struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	pool  *volume.Pool
	v     volume.Volume
	short bool  // something has less than the claim requests; if not, only its status is wrong
	err   error // an ErrNotReady; v is not known then
}

// sync grows the volume of the claim of that key, or records why it cannot. It does
// nothing if claim, PV and volume agree, or if the PV is not one of this node.
func (r *Resizer) sync(ctx context.Context, key string) error {
	claim, pv := r.cached(key)
	if claim == nil || pv == nil || r.target(claim, pv) == nil {
		r.failing.drop(key)
		return nil
	}
	if r.failing.waits(key, claim.UID, contract.Bytes(claim)) {
		return nil
	}
	// The cache may be old, and its claims are changed for the provisioning loop.
	claim, pv, err := r.read(ctx, claim, pv)
	if claim == nil || err != nil {
		return err
	}
	at := r.target(claim, pv)
	switch {
	case at == nil:
		r.failing.drop(key)
		return nil
	case at.err != nil:
		return r.refuse(ctx, key, at, at.err)
	}
	if err := r.expand(at); err != nil {
		return r.refuse(ctx, key, at, err)
	}
	if err := r.publish(ctx, at); err != nil {
		return r.unwritten(ctx, key, at, err)
	}
	r.failing.drop(key)
	return nil
}

// target returns the claim as a target, nil if no step is needed or the PV is not of this node.
func (r *Resizer) target(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) *target {
	if !bound(claim, pv) {
		return nil
	}
	at := &target{claim: claim, pv: pv}
	at.pool, at.v, at.err = r.PVs.VolumeOf(pv)
	if at.err != nil && !errors.Is(at.err, volume.ErrNotReady) {
		return nil
	}
	at.short = short(claim, pv, at.v.Bytes)
	if !at.short && (at.err != nil || !mentionsResize(claim) && !overcharged(claim, at.v.Bytes)) {
		return nil
	}
	return at
}

// expand grows the volume. It does nothing if the volume has more than the claim requests. It also
// expands a volume of exactly that size, because its quota may be behind.
func (r *Resizer) expand(at *target) (err error) {
	wanted := contract.Bytes(at.claim)
	if !at.short || at.v.Bytes > wanted {
		return nil
	}
	if at.v, err = at.pool.Expand(at.v.Name, wanted); err == nil {
		r.Changed(at.pool)
	}
	return err
}

// publish writes the volume's size to the PV, then to the claim.
func (r *Resizer) publish(ctx context.Context, at *target) error {
	allocated := sizeOf(at.claim, at.v.Bytes)
	shown := *at.claim.Status.Capacity.Storage()
	if at.short {
		shown = allocated
		if err := r.growPV(ctx, at.pv, shown); err != nil {
			return err
		}
	}
	if err := r.patchStatus(ctx, at.claim, grown(at.claim.Status, shown, allocated)); err != nil {
		return err
	}
	if at.short {
		klog.FromContext(ctx).Info("Grew a volume", "PV", at.pv.Name, "pool", at.pool.Path(), "directory", at.v.Name, "bytes",
			at.v.Bytes)
		r.succeeded(ctx, at.claim, at.v.Bytes)
	}
	return nil
}

// cached returns claim and PV of the informers, nil if there is none.
func (r *Resizer) cached(key string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	obj, ok, err := r.claims.GetByKey(key)
	if !ok || err != nil {
		return nil, nil
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	if obj, ok, err = r.pvs.GetByKey(claim.Spec.VolumeName); !ok || err != nil {
		return claim, nil
	}
	return claim, obj.(*corev1.PersistentVolume)
}

// read reads claim and PV from the API server. It returns nil if one is gone or if
// another claim has the name. Writes then name the versions that were read.
func (r *Resizer) read(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (
	*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	c, err := live.NamedClaim(ctx, r.Client, claim.Namespace, claim.Name)
	if err != nil || c == nil || c.UID != claim.UID {
		return nil, nil, err
	}
	if pv, err = live.PV(ctx, r.Client, pv.Name); pv == nil {
		return nil, nil, err
	}
	return c, pv, nil
}

// growPV writes the size to the PV. It does nothing if the PV has as much.
func (r *Resizer) growPV(ctx context.Context, pv *corev1.PersistentVolume, size resource.Quantity) error {
	if pv.Spec.Capacity.Storage().Cmp(size) >= 0 {
		return nil
	}
	capacity := map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: size}}
	if _, err := live.PatchPV(ctx, r.Client, pv, nil, capacity, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("write the new size to PV %s: %w", pv.Name, err)
	}
	return nil
}

// patchStatus writes the claim's status. It does nothing if the status is the same.
func (r *Resizer) patchStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	status corev1.PersistentVolumeClaimStatus) error {
	if apiequality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	patch, err := statusPatch(claim, status)
	if err != nil {
		return err
	}
	_, err = r.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// statusPatch returns the patch to the new status, for this version of the claim only.
func statusPatch(claim *corev1.PersistentVolumeClaim, status corev1.PersistentVolumeClaimStatus) ([]byte, error) {
	before, err := json.Marshal(corev1.PersistentVolumeClaim{Status: claim.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{UID: claim.UID, ResourceVersion: claim.ResourceVersion}, Status: status,
	})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.PersistentVolumeClaim{})
}
