package release

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Guard sets the reclaim policy of the holder's PV to Retain and notes the former one: while the
// holder lives, the volumes of its pool are on that PV, and the deletion of its claim, by mistake or
// with its namespace, must not delete them. It also notes the pool, for those who would wipe the
// disk of a PV whose claim is gone. It does nothing to a PV that another claim has. The problem is a
// refusal of the API server that lasts.
func (p *Pass) Guard(ctx context.Context, name string) (problem string, err error) {
	h := p.Record.Holders[name]
	if h.Volume == "" {
		return "", nil
	}
	pv := &corev1.PersistentVolume{}
	if err := p.Client.Get(ctx, client.ObjectKey{Name: h.Volume}, pv); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	retained := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	held := contract.HeldPool{Node: h.Node, Pool: h.Pool, Path: h.Path}.String()
	if !p.isOf(pv, name) || retained && pv.Annotations[contract.AnnHeldPool] == held {
		return "", nil
	}
	notes, spec := map[string]any{contract.AnnHeldPool: held}, map[string]any{}
	if !retained {
		spec["persistentVolumeReclaimPolicy"] = corev1.PersistentVolumeReclaimRetain
		if pv.Annotations[contract.AnnPoolPolicy] == "" {
			notes[contract.AnnPoolPolicy] = pv.Spec.PersistentVolumeReclaimPolicy
		}
	}
	err = p.patchPV(ctx, pv, map[string]any{"annotations": notes}, spec)
	if err != nil && live.Permanent(err) {
		return fmt.Sprintf("PV %s, which has the volumes of the pool, does not get the policy Retain, so that they go with "+
			"its claim %s: %v", pv.Name, name, err), nil
	}
	return "", err
}

// isOf reports whether the PV is that of the claim of that name, also of one that is gone.
func (p *Pass) isOf(pv *corev1.PersistentVolume, claim string) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == p.Namespace && ref.Name == claim
}

// restore sets the reclaim policy that Guard noted, and removes the notes. It does nothing unless the
// PV is bound to its claim, and that is not being deleted: otherwise Retain stays, and an
// administrator decides.
func (p *Pass) restore(ctx context.Context, name string, h poolrecord.Holder) error {
	pv, err := p.volume(ctx, h)
	if pv == nil || err != nil || pv.Status.Phase != corev1.VolumeBound || !p.isOf(pv, name) ||
		pv.Annotations[contract.AnnPoolPolicy] == "" && pv.Annotations[contract.AnnHeldPool] == "" {
		return err
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = p.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, claim)
	if err != nil || claim.UID != pv.Spec.ClaimRef.UID || claim.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	spec := map[string]any{}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain &&
		pv.Annotations[contract.AnnPoolPolicy] != "" {
		spec["persistentVolumeReclaimPolicy"] = pv.Annotations[contract.AnnPoolPolicy]
	}
	return p.patchPV(ctx, pv, map[string]any{
		"annotations": map[string]any{contract.AnnPoolPolicy: nil, contract.AnnHeldPool: nil}}, spec)
}

// volume reads the holder's PV from the API server, nil if there is none, or none is recorded.
func (p *Pass) volume(ctx context.Context, h poolrecord.Holder) (*corev1.PersistentVolume, error) {
	if h.Volume == "" {
		return nil, nil
	}
	pv := &corev1.PersistentVolume{}
	err := p.Live.Get(ctx, client.ObjectKey{Name: h.Volume}, pv)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PV %s: %w", h.Volume, err)
	}
	return pv, nil
}

// Reclaim returns the PV of a holder whose claim is gone, for a new claim of that name, which it lets
// bind the PV. It returns nil if there is no such PV, or if the PV is of another claim.
func (p *Pass) Reclaim(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	pv, err := p.volume(ctx, p.Record.Holders[name])
	if pv == nil || err != nil || !p.isOf(pv, name) || pv.DeletionTimestamp != nil {
		return nil, err
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = p.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, claim)
	if uid := pv.Spec.ClaimRef.UID; uid == "" || err == nil && claim.UID == uid || client.IgnoreNotFound(err) != nil {
		return pv, client.IgnoreNotFound(err)
	}
	return pv, p.patchPV(ctx, pv, nil, map[string]any{"claimRef": map[string]any{"uid": nil, "resourceVersion": nil}})
}

// patchPV changes the PV as it was read. It returns a conflict if that was written since.
func (p *Pass) patchPV(ctx context.Context, pv *corev1.PersistentVolume, meta, spec map[string]any) error {
	patch, err := live.UnchangedPatch(pv, meta, spec)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(p.Client.Patch(ctx, pv.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
}

// cannotMountAfter is the time after which a pod that does not start counts as one that cannot.
var cannotMountAfter = timing.Scaled(2 * time.Minute)

// Mounts reports whether a pod of the holder has its claim mounted, or may: kubelets mount no claim
// that is being deleted for a pod that starts.
func (p *Pass) Mounts(ctx context.Context, h poolrecord.Holder) (bool, error) {
	pods, err := p.holderPods(ctx, h)
	for _, pod := range pods {
		created := contract.PodReady(&pod)
		for _, c := range pod.Status.ContainerStatuses {
			created = created || c.State.Waiting == nil || c.State.Waiting.Reason != "ContainerCreating"
		}
		if since, unready := contract.UnreadySince(&pod); created || unready && p.Now().Sub(since) < cannotMountAfter {
			return true, err
		}
	}
	return false, err
}
