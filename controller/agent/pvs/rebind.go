package pvs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A PV with policy Retain outlives its claim. An administrator gives such a PV to the next
// claim through the PV's claimRef. The agent then rebinds the volume: it writes that claim
// to the volume's record. It reads PV and claims from the API server, never from a cache:
//
//	the PV's claimRef names     the record's claim  the agent
//	the record's claim          any                 does nothing
//	no claim's UID              any                 waits, and deletes nothing, whatever the policy
//	a claim that has this PV    gone                rebinds the volume
//	a claim that is gone        gone                rebinds the volume, then applies the PV's policy
//	one that had it before      gone                keeps the volume until a person confirms the deletion
//	a claim with another PV     any                 refuses the PV
//	a claim that has this PV    exists, unused      rebinds the volume: a populator moved the PV
//	a claim that has this PV    used by a pod       waits until the pod has ended
//	a claim that is gone        exists              refuses the PV
//
// A claim and a PV that name each other prove the transfer: only a writer of PVs can set
// the claimRef. The data source of a claim proves nothing: every user can write it.
//
// A claim that is gone and had the volume before the recorded one means that the PV is older than
// the record: etcd was restored from a backup, and the claim that wrote last was not deleted.
//
// No pod uses a claim that is gone: Kubernetes keeps a deleted claim until its pods have
// ended (finalizer kubernetes.io/pvc-protection). While the recorded claim exists, the
// agent lists the pods of the node. No new pod can use that claim: the kubelet starts a
// pod only if the PV's claimRef names the pod's claim.
//
// All rows but the first require that the PV has the pool's UUID and the recorded name. So
// no second PV can get the volume.

type claimMismatch struct {
	path, uid string
	owner     record.Owner
}

func (e claimMismatch) Error() string {
	return fmt.Sprintf("directory %s belongs to %v, and this PV's claimRef has the UID %q", e.path, e.owner, e.uid)
}

// errPending means that Kubernetes or an administrator has not finished changing the PV
// and its claim. The caller retries.
var errPending = errors.New("PV and claim are not bound or released yet")

// reconcileClaim returns the volume of a valid PV. It rebinds the volume if the PV was given
// to another claim. The errors are those of matches and rebind.
func (p *PVs) reconcileClaim(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool,
	v volume.Volume) (volume.Volume, error) {
	err := b.matches(v, pv)
	if !errors.As(err, new(claimMismatch)) {
		return v, err
	}
	return p.rebind(ctx, pv, pool, v, err)
}

// rebind writes the next claim of a PV to the volume's record, which names another claim. mismatch
// is the error of matches. The error is errPending if PV or claims are still changing, ErrNotReady
// if the API server does not answer, else the claim must not get the volume.
func (p *PVs) rebind(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume,
	mismatch error) (volume.Volume, error) {
	next, bound, err := p.nextClaim(ctx, pv, pool, v, mismatch)
	if err != nil {
		return v, err
	}
	binding := p.binding(pv, next)
	if bound {
		binding.UID, binding.Bound = string(pv.UID), true
	}
	if err := pool.Transfer(v.Name, v.Owner.UID, binding); err != nil {
		return v, fmt.Errorf("%w: %w", errPending, err)
	}
	klog.FromContext(ctx).Info("Rebound a retained volume to its next claim", "PV", pv.Name, "volume", v.Name, "from",
		v.Owner, "to", next)
	v.Owner = next
	return v, nil
}

// nextClaim returns the claim that a PV was given to and that the volume's record does not name
// yet, and whether that claim exists and is bound to the PV. It changes nothing. The errors are
// those of rebind.
func (p *PVs) nextClaim(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume,
	mismatch error) (next record.Owner, bound bool, err error) {
	var none record.Owner
	if v.State == record.Deleting || v.PV != pv.Name {
		return none, false, mismatch
	}
	if pv.Annotations[contract.AnnPool] != pool.ID() {
		return none, false, fmt.Errorf("%w; to rebind a retained volume to another claim, confirm with the pool's UUID "+
			"that it belongs to the PV: kubectl annotate pv %s %s=%s", mismatch, pv.Name, contract.AnnPool, pool.ID())
	}
	before, err := live.Claim(ctx, p.Client, v.Owner)
	if err != nil {
		return none, false, err
	}
	now, err := live.PV(ctx, p.Client, pv.Name)
	switch {
	case err != nil:
		return none, false, err
	case now == nil, now.UID != pv.UID, contract.ClaimUID(now) != contract.ClaimUID(pv), contract.ClaimUID(now) == "":
		return none, false, errPending
	}
	claim, err := live.ClaimOf(ctx, p.Client, now)
	if err != nil {
		return none, false, err
	}
	if err := checkNextClaim(now, claim, v.Cluster == "" || v.Cluster == p.Node.Cluster()); err != nil {
		return none, false, err
	}
	next = ownerOf(now)
	switch {
	case before == nil && claim == nil && v.Had(next.UID) && !p.object(now, v.Record).Confirmed:
		return none, false, Kept{fmt.Sprintf("%v; that claim had the volume before: etcd may have been restored from a "+
			"backup, and the volume has the data of the later claim; to keep the data, give the PV to a claim; to delete it, "+
			"kubectl annotate pv %s %s=%s", mismatch, pv.Name, contract.AnnDeleteVolume, pv.UID)}
	case before == nil:
		return next, claim != nil, nil
	case claim == nil:
		return none, false, fmt.Errorf("%w; the recorded claim is still there, and must be deleted before another claim "+
			"can get the volume", mismatch)
	}
	return next, true, p.unused(ctx, now, before)
}

// unused returns nil if no pod of this node uses the claim. The error is an errPending if a
// pod does, or if the agent may not list pods, and an ErrNotReady if the API server does
// not answer. It records an event if the agent may not list pods.
func (p *PVs) unused(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	key, user := claim.Namespace+"/"+claim.Name, ""
	err := live.EachPod(ctx, p.Client, claim.Namespace, fields.OneTermEqualSelector("spec.nodeName", p.Node.Name()),
		func(pod *corev1.Pod) bool {
			user = contract.ClaimUsers([]corev1.Pod{*pod})[key]
			return user == ""
		})
	switch {
	case apierrors.IsForbidden(err):
		p.Events.Note(ctx, events.PV(pv), "users", events.VolumeKept, fmt.Sprintf(
			"node %s keeps the volume for claim %s until that claim is gone: the agent may not list the pods that use it; "+
				"delete that claim, or grant the permission \"list pods\" (manifests/examples/populators)", p.Node.Name(), key))
		return fmt.Errorf("%w: no permission to list the pods that use claim %s: %w", errPending, key, err)
	case err != nil:
		return live.Unanswered{Request: "list the pods of namespace " + claim.Namespace + " on node " + p.Node.Name(),
			Err: err}
	}
	if user != "" {
		return fmt.Errorf("%w: pod %s uses claim %s", errPending, user, key)
	}
	return nil
}

// checkNextClaim returns nil if the claim of a PV may be the next claim of the volume. claim is nil
// if it is gone. The caller checks that the recorded claim is gone or unused. sameCluster is false
// if the volume was recorded in another cluster, whose claims the agent cannot read.
func checkNextClaim(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, sameCluster bool) error {
	switch {
	case claim == nil && !contract.Released(pv):
		return errPending
	case claim == nil && !sameCluster:
		return errors.New("its volume was recorded in another cluster, or the identity of this cluster is unknown, and " +
			"the claim in its claimRef is gone; bind the PV to a claim first")
	case claim == nil:
		return nil
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name:
		return fmt.Errorf("its claimRef names claim %s/%s, which has PV %s", claim.Namespace, claim.Name,
			claim.Spec.VolumeName)
	case claim.Spec.VolumeName == "" || pv.Status.Phase != corev1.VolumeBound:
		return errPending
	}
	return nil
}
