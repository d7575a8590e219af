package nodegone

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// giveUp takes the next step of the policy release or delete:
//
//  1. for release, set the PV's reclaim policy to Retain: the node may come back between any two steps, and its agent must not
//     delete the directory;
//  2. delete the claim. Kubernetes keeps it until no pod uses it;
//  3. for release, delete the PV once its claim is gone;
//  4. remove the provisioner's finalizer from the PV, which waits for the agent of the node. All other finalizers stay.
//
// Each step reads class, PV, claim and node from the API server, and writes only if PV or claim is still as it was read. The
// next call takes the next step, also after a restart.
func (r *Reconciler) giveUp(ctx context.Context, cached *corev1.PersistentVolume, h home, p policy) (state, error) {
	pv, err := live.PV(ctx, r.Live, cached.Name)
	if pv == nil || err != nil {
		return present, err
	}
	sc, err := r.liveClass(ctx, pv)
	if err != nil {
		return present, err
	}
	at, ok := homeOf(pv)
	if now, _ := policyOf(pv, sc); !ok || at != h || pv.UID != cached.UID || now != p {
		return present, nil // the cache is behind
	}
	claim, err := r.claimOf(ctx, pv)
	switch {
	case err != nil:
		return present, err
	case p == release && !retained(pv):
		return removing, r.retain(ctx, pv, h)
	case claim != nil:
		return removing, r.deleteClaim(ctx, pv, claim, h, p)
	case p == remove:
		return released, nil
	case pv.Status.Phase == corev1.VolumeBound:
		return removing, nil // Kubernetes has yet to see that the claim is gone
	case pv.DeletionTimestamp == nil:
		return removing, r.deletePV(ctx, pv, h)
	}
	return removing, r.unhold(ctx, pv, h)
}

// claimOf reads the claim that is bound to the PV from the API server, nil if there is none.
func (r *Reconciler) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	claim, err := live.ClaimOf(ctx, r.Live, pv)
	if claim == nil || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name {
		return nil, err
	}
	return claim, nil
}

// deleteClaim deletes the claim. It does nothing if the claim is being deleted, or is not yet bound.
func (r *Reconciler) deleteClaim(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, h home, p policy) error {
	if claim.DeletionTimestamp != nil || claim.Spec.VolumeName == "" {
		return nil
	}
	why, err := r.gone(ctx, h)
	if why == "" || err != nil {
		return err
	}
	r.announce(ctx, events.Claim(claim), fmt.Sprintf("%s, and it had the volume of this claim: class %s has %s=%s, so the claim is deleted. "+
		"A claim of this name gets a new volume", why, pv.Spec.StorageClassName, class.AnnNodeGone, p))
	err = r.Live.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, live.Unchanged(claim))
	return ignoreMoved(err)
}

// deletePV deletes a PV without a claim.
func (r *Reconciler) deletePV(ctx context.Context, pv *corev1.PersistentVolume, h home) error {
	why, err := r.gone(ctx, h)
	if why == "" || err != nil {
		return err
	}
	r.announce(ctx, events.PV(pv), fmt.Sprintf("%s, and it had this volume: class %s has %s=%s, so the PV is deleted. "+
		"If the disk comes back, the agent there reports the directory as an orphan", why, pv.Spec.StorageClassName, class.AnnNodeGone, release))
	return ignoreMoved(r.Live.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv)))
}

// unhold removes the provisioner's finalizer from a PV that is being deleted. It does nothing if the PV has none.
func (r *Reconciler) unhold(ctx context.Context, pv *corev1.PersistentVolume, h home) error {
	others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == class.Finalizer })
	if len(others) == len(pv.Finalizers) {
		return nil
	}
	if why, err := r.gone(ctx, h); why == "" || err != nil {
		return err
	}
	return r.patch(ctx, pv, map[string]any{"finalizers": others}, nil)
}

// announce records the deletion that follows.
func (r *Reconciler) announce(ctx context.Context, o corev1.ObjectReference, message string) {
	r.Events.Note(ctx, o, topic+" released", events.VolumeReleased, message)
}
