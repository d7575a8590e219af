package resize

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Reasons of events about claims; they are the standard external-resizer's, so
// that one search finds all.
const (
	reasonFailed = "VolumeResizeFailed"
	reasonGrown  = "VolumeResizeSuccessful"
)

// refuse says on the claim why its volume cannot grow, and tries again later.
// A pool that another agent has is waited for in silence: that one answers.
func (r *Resizer) refuse(ctx context.Context, key string, at *target, why error) error {
	var held *volume.HeldError
	if errors.As(why, &held) {
		return why
	}
	message, missing := r.words(at, why)
	if err := r.patchStatus(ctx, at.claim, refused(at.claim.Status, message, missing > 0, metav1.Now())); err != nil {
		return err
	}
	wanted := class.Bytes(at.claim)
	r.events.Warn(ctx, events.Claim(at.claim), fmt.Sprintf("resize failed %d", wanted), reasonFailed, message)
	pause := r.failing.add(key, failure{uid: at.claim.UID, wanted: wanted, pool: at.pool, missing: missing,
		away: errors.Is(why, volume.ErrNotReady)})
	klog.FromContext(ctx).V(2).Info("Cannot grow a volume", "claim", key, "err", why, "again", pause)
	r.queue.AddAfter(key, pause)
	return nil
}

// words are why the volume cannot grow, and how many bytes are missing where
// that is the reason.
func (r *Resizer) words(at *target, why error) (message string, missing int64) {
	wanted := class.Bytes(at.claim)
	var space *volume.SpaceError
	if !errors.As(why, &space) {
		return fmt.Sprintf("node %s cannot grow the volume of this claim to %s now: %v; it is tried again by itself",
			r.node, class.Size(wanted), why), 0
	}
	estimated := ""
	if space.Estimate {
		estimated = ", estimated"
	}
	return fmt.Sprintf("node %s cannot grow the volume of this claim to %s: that is %s more, and %s of %s in %s can be promised "+
		"(in bytes: wanted %d, promisable %d%s, total %d); ask for less, or free space there: it then grows by itself",
		r.node, class.Size(wanted), class.Size(space.Wanted), class.Size(space.Available), class.Size(space.Total), at.pool.Path(),
		space.Wanted, space.Available, estimated, space.Total), space.Wanted
}

// succeeded says that the volume grew.
func (r *Resizer) succeeded(ctx context.Context, claim *corev1.PersistentVolumeClaim, bytes int64) {
	r.events.Note(ctx, events.Claim(claim), fmt.Sprintf("resized %d", bytes), reasonGrown,
		fmt.Sprintf("node %s: the volume has %s now (%d bytes)", r.node, class.Size(bytes), bytes))
}
