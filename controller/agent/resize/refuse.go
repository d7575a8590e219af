package resize

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// refuse writes to the claim why its volume cannot grow, and adds the claim to the queue again. If
// another agent holds the pool, that agent may serve the claim: refuse then writes nothing for two
// minutes, and returns the error.
func (r *Resizer) refuse(ctx context.Context, key string, at *target, why error) error {
	if errors.As(why, new(*fault.HeldError)) &&
		!r.held.Ends(types.UID(fmt.Sprint(at.claim.UID, " ", contract.Bytes(at.claim)))) {
		return why
	}
	message, missing := r.message(at, why)
	err := r.patchStatus(ctx, at.claim, refused(at.claim.Status, message, missing > 0, metav1.Now()))
	if err != nil && !live.Permanent(err) {
		return err
	}
	wanted := contract.Bytes(at.claim)
	r.Events.Warn(ctx, events.Claim(at.claim), fmt.Sprintf("resize failed %d", wanted), events.VolumeResizeFailed, message)
	pause := r.failing.add(key, failure{uid: at.claim.UID, requested: wanted, pool: at.pool, missing: missing,
		notReady: errors.Is(why, volume.ErrNotReady)})
	result := resultFailed
	if missing > 0 {
		result = resultNoSpace
	}
	r.results.WithLabelValues(result).Inc()
	klog.FromContext(ctx).V(2).Info("Cannot grow a volume", "claim", key, "err", why, "retry", pause)
	r.queue.AddAfter(key, pause)
	return nil
}

// message returns why the volume cannot grow, and the size that found no space, if that is why.
func (r *Resizer) message(at *target, why error) (message string, missing int64) {
	wanted := contract.Bytes(at.claim)
	var space *fault.SpaceError
	if !errors.As(why, &space) {
		return fmt.Sprintf("node %s cannot grow the volume of this claim to %s now: %v; the agent retries",
			r.Node, contract.Size(wanted), why), 0
	}
	if space.MakingRoom {
		return fmt.Sprintf("node %s makes room in %s to grow the volume of this claim to %s: it removes deleted volumes that "+
			"were kept for undelete, and then grows the volume", r.Node, at.pool.Path(), contract.Size(wanted)), space.Wanted
	}
	if space.NoInodes {
		return fmt.Sprintf("node %s cannot grow the volume of this claim to %s: the filesystem of %s has no free inodes; "+
			"remove files there: the agent then grows the volume", r.Node, contract.Size(wanted), at.pool.Path()), space.Wanted
	}
	estimated := ""
	if space.Estimate {
		estimated = ", estimated"
	}
	return fmt.Sprintf("node %s cannot grow the volume of this claim to %s: that is %s more, and %s of %s in %s are "+
		"available (in bytes: increase %d, available %d%s, total %d); request less, or free space: the agent then grows "+
		"the volume",
		r.Node, contract.Size(wanted), contract.Size(space.Wanted), contract.Size(space.Available),
		contract.Size(space.Total), at.pool.Path(),
		space.Wanted, space.Available, estimated, space.Total), space.Wanted
}

// unwritten handles a size that could not be written to claim and PV. If the API server refused it until
// something else changes, or did not accept it for two minutes, the claim gets an event: its user sees
// no change otherwise. It returns the error unless the claim is in the queue again.
func (r *Resizer) unwritten(ctx context.Context, key string, at *target, why error) error {
	refused, wanted := live.Permanent(why), contract.Bytes(at.claim)
	switch {
	case ctx.Err() != nil, apierrors.IsConflict(why), apierrors.IsNotFound(why):
		return why
	case !refused && !r.held.Ends(types.UID(fmt.Sprint("write ", at.claim.UID, " ", wanted))):
		return why
	}
	r.Events.Warn(ctx, events.Claim(at.claim), fmt.Sprintf("resize unwritten %d", wanted), events.VolumeResizeFailed,
		fmt.Sprintf("node %s: the volume of this claim has %s, and that cannot be written to claim and PV: %v; the agent "+
			"tries again", r.Node, contract.Size(max(at.v.Bytes, wanted)), why))
	if !refused {
		return why
	}
	pause := r.failing.add(key, failure{uid: at.claim.UID, requested: wanted, pool: at.pool})
	klog.FromContext(ctx).Error(why, "Cannot write that a volume has grown", "claim", key, "retry", pause)
	r.results.WithLabelValues(resultFailed).Inc()
	r.queue.AddAfter(key, pause)
	return nil
}

func (r *Resizer) succeeded(ctx context.Context, claim *corev1.PersistentVolumeClaim, bytes int64) {
	r.results.WithLabelValues(resultGrown).Inc()
	r.Events.Note(ctx, events.Claim(claim), fmt.Sprintf("resized %d", bytes), events.VolumeResizeSuccessful,
		fmt.Sprintf("node %s: the volume has %s now (%d bytes)", r.Node, contract.Size(bytes), bytes))
}
