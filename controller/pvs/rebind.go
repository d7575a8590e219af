package pvs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A PV with policy Retain outlives its claim. Its administrator gives it to
// another by the PV's claimRef, as he may any PV of Kubernetes, and the volume's
// record follows. What the API server says is asked of it, never of a cache:
//
//	the claimRef has            the record's claim   so the volume
//	the record's claim                               is that claim's
//	no claim's UID              whatever             waits, and is not deleted whatever the policy
//	a claim that has this PV    gone                 is given to it
//	a claim that is gone        gone                 is given to it, and goes or stays by the PV's policy
//	a claim with another PV     whatever             is left alone
//	a claim that has this PV    still there, unused  is given to it: a populator moved the PV
//	a claim that has this PV    used by a pod        waits until the pod has ended
//	a claim that is gone        still there          is left alone
//
// Only a writer of PVs can bring about that a claim has a PV and the PV's claimRef
// names that claim. What claims say of their data source proves nothing: any user
// writes it. A claim that is gone was used by no pod since, for Kubernetes keeps a
// deleted claim until then (finalizer kubernetes.io/pvc-protection). While the
// recorded claim is there, the agent lists the pods, if it may. No new pod can use
// that claim: kubelets start a pod only if the PV's claimRef names the pod's claim.
//
// The PV must carry the pool's UUID for all but the first row, and its name must
// be the one that is recorded: no second PV gets at the volume so.

// claimMismatch is why a PV, which the record names, is not yet the volume's.
type claimMismatch struct {
	path, uid string
	owner     volume.Owner
}

func (e claimMismatch) Error() string {
	return fmt.Sprintf("directory %s belongs to %v, and this PV's claimRef has the UID %q", e.path, e.owner, e.uid)
}

// errPending: Kubernetes, or somebody who edits the PV, is in the middle of it.
var errPending = errors.New("PV and claim are not bound or released yet")

// waitsForClaim reports whether a PV names no claim by its UID. The next claim
// is then anybody's guess, and the phase may still be that of the one before.
func waitsForClaim(pv *corev1.PersistentVolume) bool { return class.ClaimUID(pv) == "" }

// volumeGone reports whether a PV that names the pool by its UUID has neither
// record nor directory there, as far as the pool can tell: its volume went in an
// earlier call. The caller has seen that there is no record.
func volumeGone(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) bool {
	there, err := pool.HasDirectory(directory)
	return hasPoolUUID(pv) && !there && err == nil
}

// reconcileClaim returns the volume of a valid PV, once its record has the PV's claim. It
// rebinds the volume if the PV was given to another claim. The error is that of
// rebind, or why the PV is not the volume's.
func (p *PVs) reconcileClaim(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume) (volume.Volume, error) {
	err := b.matches(v, pv)
	if !errors.As(err, new(claimMismatch)) {
		return v, err
	}
	return p.rebind(ctx, pv, pool, v, err)
}

// rebind writes the next claim of a PV to the volume's record, which has another
// claim, as why describes. The error is why it stays so: an errPending if the agent
// cannot tell yet, an ErrNotReady if the API server does not answer.
func (p *PVs) rebind(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume, why error) (volume.Volume, error) {
	next, err := p.nextClaim(ctx, pv, pool, v, why)
	if err != nil {
		return v, err
	}
	if err := pool.Transfer(v.Name, v.Owner.UID, p.binding(pv, next)); err != nil {
		return v, fmt.Errorf("%w: %w", errPending, err)
	}
	klog.FromContext(ctx).Info("Gave a kept volume to another claim", "PV", pv.Name, "volume", v.Name, "from", v.Owner, "to", next)
	v.Owner = next
	return v, nil
}

// nextClaim returns the claim that a PV was given to, and that the volume's record
// does not have yet, as why describes. It changes nothing. The errors are those of
// rebind.
func (p *PVs) nextClaim(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume, why error) (volume.Owner, error) {
	var none volume.Owner
	if v.State == volume.Deleting || v.PV != pv.Name {
		return none, why
	}
	if pv.Annotations[class.AnnPool] != pool.ID() {
		return none, fmt.Errorf("%w; to give a kept volume to another claim, say with the pool's UUID that it is the PV's: "+
			"kubectl annotate pv %s %s=%s", why, pv.Name, class.AnnPool, pool.ID())
	}
	before, err := live.Claim(ctx, p.client, v.Owner)
	if err != nil {
		return none, err
	}
	now, err := live.PV(ctx, p.client, pv.Name)
	switch {
	case err != nil:
		return none, err
	case now == nil, now.UID != pv.UID, class.ClaimUID(now) != class.ClaimUID(pv), waitsForClaim(now):
		return none, errPending
	}
	next := ownerOf(now)
	claim, err := live.Claim(ctx, p.client, next)
	if err != nil {
		return none, err
	}
	if err := checkNextClaim(now, claim, v.Cluster == "" || v.Cluster == p.node.Cluster()); err != nil {
		return none, err
	}
	switch {
	case before == nil:
		return next, nil
	case claim == nil:
		return none, fmt.Errorf("%w; the first one is still there, and must go before another can have the volume", why)
	}
	return next, p.unused(ctx, now, before)
}

// unused returns nil if no pod of this node uses the claim, and errPending if one
// does, or if the agent may not list pods.
func (p *PVs) unused(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	pods, err := p.client.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.node.Name()).String(),
	})
	key := claim.Namespace + "/" + claim.Name
	switch {
	case apierrors.IsForbidden(err):
		p.events.Note(ctx, events.PV(pv), "users", events.VolumeKept, fmt.Sprintf(
			"node %s keeps the volume for claim %s until that claim is gone: the agent may not list the pods that use it; "+
				"it need not wait with the permission \"list pods\" (manifests/examples/populators)", p.node.Name(), key))
		return fmt.Errorf("%w: no permission to list the pods that use claim %s: %w", errPending, key, err)
	case err != nil:
		return live.Unanswered{Request: "list the pods of namespace " + claim.Namespace + " on node " + p.node.Name(), Err: err}
	}
	if pod := class.ClaimUsers(pods.Items)[key]; pod != "" {
		return fmt.Errorf("%w: pod %s uses claim %s", errPending, pod, key)
	}
	return nil
}

// checkNextClaim returns nil where the claim of a PV, nil where that is gone, is the next
// one of the volume, if the claim before is out of the way. Whether that is gone is
// known at home, the cluster of which it was; another cluster's claims cannot be
// asked for.
func checkNextClaim(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, sameCluster bool) error {
	switch {
	case claim == nil && !class.Released(pv):
		return errPending
	case claim == nil && !sameCluster:
		return errors.New("its volume was recorded in another cluster, or it is not known which one this is, and the claim in its claimRef is gone, so nobody can tell that it may go; " +
			"give the PV to a claim first")
	case claim == nil:
		return nil
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name:
		return fmt.Errorf("its claimRef names claim %s/%s, which has PV %s", claim.Namespace, claim.Name, claim.Spec.VolumeName)
	case claim.Spec.VolumeName == "" || pv.Status.Phase != corev1.VolumeBound:
		return errPending
	}
	return nil
}
