package nodegone

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// step is the next step for a PV whose volume is lost, as read from the API server.
type step struct {
	pv   *corev1.PersistentVolume
	home identity.Home
	p    policy
	loss identity.Loss
}

// giveUp takes the next step of the policy release or delete:
//
//  1. for release, set the PV's reclaim policy to Retain: the node may come back between any two
//     steps, and its agent must not delete the directory;
//  2. delete the claim. Kubernetes keeps it until no pod uses it;
//  3. for release, delete the PV once its claim is gone;
//  4. remove the provisioner's finalizer from the PV, which waits for the agent of the node. All
//     other finalizers stay.
//
// Each step reads class, PV, claim and node from the API server, the node last, and writes only if PV or
// claim is still as it was read. The next call takes the next step, also after a restart. The annotation on
// a Node gives up as release does, whatever the class says.
func (r *Reconciler) giveUp(ctx context.Context, cached *corev1.PersistentVolume, h identity.Home, p policy,
	loss identity.Loss) (state, error) {
	pv, err := live.PV(ctx, r.Live, cached.Name)
	if pv == nil || err != nil {
		return present, err
	}
	if at, ok := identity.HomeOf(pv); !ok || at != h || pv.UID != cached.UID {
		return present, nil // the cache is behind
	}
	if loss != identity.GivenUp {
		sc, err := r.liveClass(ctx, pv)
		if err != nil {
			return present, err
		}
		if now, _ := policyOf(pv, sc); now != p {
			return present, nil // as above
		}
	}
	claim, err := r.claimOf(ctx, pv)
	s := step{pv, h, p, loss}
	switch {
	case err != nil:
		return present, err
	case p == release && !s.noted():
		return removing, r.retain(ctx, s)
	case claim != nil:
		return removing, r.deleteClaim(ctx, s, claim)
	case p == remove:
		return released, nil
	case pv.Status.Phase == corev1.VolumeBound:
		return removing, nil // Kubernetes has yet to see that the claim is gone
	case pv.DeletionTimestamp == nil:
		return removing, r.deletePV(ctx, s)
	}
	return removing, r.removeFinalizer(ctx, s)
}

// gone reads the facts about the PV from the API server. ok is false unless its volume is still
// lost in the same way.
func (r *Reconciler) gone(ctx context.Context, s step) (f identity.NodeFacts, ok bool, err error) {
	f, err = r.newReader().facts(ctx, s.pv, s.home)
	if err != nil {
		return f, false, err
	}
	loss, found := identity.NodeGone(f)
	return f, found.Answer == identity.Ours && loss == s.loss, nil
}

// why describes the loss, and what gave the volume up.
func (s step) why(f identity.NodeFacts) string {
	if s.loss == identity.GivenUp {
		return reason(f, s.loss)
	}
	return fmt.Sprintf("%s. Class %s has %s=%s", reason(f, s.loss), s.pv.Spec.StorageClassName, contract.AnnNodeGone, s.p)
}

// claimOf reads the claim that is bound to the PV from the API server, nil if there is none.
func (r *Reconciler) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	claim, err := live.ClaimOf(ctx, r.Live, pv)
	if claim == nil || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name {
		return nil, err
	}
	return claim, nil
}

// deleteClaim deletes the claim, unless that is being deleted or is not yet bound.
func (r *Reconciler) deleteClaim(ctx context.Context, s step, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil || claim.Spec.VolumeName == "" {
		return nil
	}
	f, ok, err := r.gone(ctx, s)
	if !ok || err != nil {
		return err
	}
	r.announce(ctx, events.Claim(claim), s.why(f)+", so the claim is deleted. A claim of this name gets a new volume")
	return r.ifGone(ctx, s, func(ctx context.Context, _ identity.NodeFacts) error {
		err := r.Live.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, live.Unchanged(claim))
		return live.IgnoreMoved(err)
	})
}

// deletePV deletes a PV without a claim.
func (r *Reconciler) deletePV(ctx context.Context, s step) error {
	f, ok, err := r.gone(ctx, s)
	if !ok || err != nil {
		return err
	}
	r.announce(ctx, events.PV(s.pv), s.why(f)+", so the PV is deleted. If the disk comes back, the agent there reports "+
		"the directory as an orphan")
	return r.ifGone(ctx, s, func(ctx context.Context, _ identity.NodeFacts) error {
		return live.IgnoreMoved(r.Live.CoreV1().PersistentVolumes().Delete(ctx, s.pv.Name, live.Unchanged(s.pv)))
	})
}

// removeFinalizer removes the provisioner's finalizer from a PV that is being deleted. It does
// nothing if the PV has none.
func (r *Reconciler) removeFinalizer(ctx context.Context, s step) error {
	others := slices.DeleteFunc(slices.Clone(s.pv.Finalizers), func(f string) bool { return f == contract.Finalizer })
	if len(others) == len(s.pv.Finalizers) {
		return nil
	}
	return r.ifGone(ctx, s, func(ctx context.Context, _ identity.NodeFacts) error {
		return r.patch(ctx, s.pv, map[string]any{"finalizers": others}, nil)
	})
}

// announce records the deletion that follows.
func (r *Reconciler) announce(ctx context.Context, o corev1.ObjectReference, message string) {
	r.Events.Warn(ctx, o, topic+" released", events.VolumeReleased, message)
}
