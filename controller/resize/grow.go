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

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// target is a claim that is behind, with what belongs to it.
type target struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	pool  *volume.Pool
	v     volume.Volume
	short bool  // it asks for more, or else only says what is over
	err   error // an ErrNotReady; v is not known then
}

// sync gives the claim of that key what it asks for, or says why not. It does
// nothing where claim, PV and volume are in step, or are not for us.
func (r *Resizer) sync(ctx context.Context, key string) error {
	claim, pv := r.seen(key)
	if claim == nil || pv == nil || r.look(claim, pv) == nil {
		r.failing.drop(key)
		return nil
	}
	if r.failing.waits(key, claim.UID, class.Bytes(claim)) {
		return nil
	}
	// What was seen may be old, and the claim was prepared for the loop.
	claim, pv, err := r.read(ctx, claim, pv)
	if claim == nil || err != nil {
		return err
	}
	at := r.look(claim, pv)
	switch {
	case at == nil:
		r.failing.drop(key)
		return nil
	case at.err != nil:
		return r.refuse(ctx, key, at, at.err)
	}
	if err := r.promise(at); err != nil {
		return r.refuse(ctx, key, at, err)
	}
	r.failing.drop(key)
	return r.publish(ctx, at)
}

// look returns what is behind, nil where nothing is, or where it is not ours.
func (r *Resizer) look(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) *target {
	if !bound(claim, pv) {
		return nil
	}
	at := &target{claim: claim, pv: pv}
	at.pool, at.v, at.err = r.loop.VolumeOf(pv)
	if at.err != nil && !errors.Is(at.err, volume.ErrNotReady) {
		return nil
	}
	at.short = short(claim, pv, at.v.Bytes)
	if !at.short && (at.err != nil || !speaks(claim)) {
		return nil
	}
	return at
}

// promise lets the volume grow. It does nothing where it has more than is asked
// for, or need not. One that has just that is asked again: its limit may be
// behind.
func (r *Resizer) promise(at *target) (err error) {
	wanted := class.Bytes(at.claim)
	if !at.short || at.v.Bytes > wanted {
		return nil
	}
	if at.v, err = at.pool.Expand(at.v.Name, wanted); err == nil {
		r.changed(at.pool)
	}
	return err
}

// publish writes the volume's size on the PV, then on the claim.
func (r *Resizer) publish(ctx context.Context, at *target) error {
	size := *at.claim.Status.Capacity.Storage()
	if at.short {
		size = sizeOf(at.claim, at.v.Bytes)
		if err := r.growPV(ctx, at.pv, size); err != nil {
			return err
		}
	}
	if err := r.patchStatus(ctx, at.claim, grown(at.claim.Status, size)); err != nil {
		return err
	}
	if at.short {
		klog.FromContext(ctx).Info("Grew", "PV", at.pv.Name, "pool", at.pool.Path(), "directory", at.v.Name, "bytes", at.v.Bytes)
		r.succeeded(ctx, at.claim, at.v.Bytes)
	}
	return nil
}

// seen returns claim and PV as the informers have them, nil where they do not.
func (r *Resizer) seen(key string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
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

// read returns claim and PV as the API server has them, nil where one is gone
// or another one has its name. What is written then names their versions.
func (r *Resizer) read(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (
	*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	c, err := live.NamedClaim(ctx, r.client, claim.Namespace, claim.Name)
	if err != nil || c == nil || c.UID != claim.UID {
		return nil, nil, err
	}
	if pv, err = live.PV(ctx, r.client, pv.Name); pv == nil {
		return nil, nil, err
	}
	return c, pv, nil
}

// growPV writes the size on the PV. It does nothing where it has as much.
func (r *Resizer) growPV(ctx context.Context, pv *corev1.PersistentVolume, size resource.Quantity) error {
	if pv.Spec.Capacity.Storage().Cmp(size) >= 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pv.UID, "resourceVersion": pv.ResourceVersion},
		"spec":     map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: size}},
	})
	if err != nil {
		return err
	}
	if _, err = r.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("write the new size on PV %s: %w", pv.Name, err)
	}
	return nil
}

// patchStatus writes what is new in the claim's status. It does nothing where
// nothing is.
func (r *Resizer) patchStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, status corev1.PersistentVolumeClaimStatus) error {
	if apiequality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	patch, err := statusPatch(claim, status)
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// statusPatch is the way to the new status, for this very version of the claim.
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
