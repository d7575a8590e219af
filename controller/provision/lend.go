package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/volume"
)

// VolumeOf is Examine for those who act on the volume: while its PV is being
// replaced, the error is ErrMigrating.
func (c *Controller) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	pool, v, err := c.Examine(pv)
	if err == nil && v.Migration.UnderWay() {
		err = fmt.Errorf("PV %s: %w", pv.Name, volume.ErrMigrating)
	}
	return pool, v, err
}

// Examine returns the volume of a PV, and its pool, where the loop would act on
// the PV itself: it says the same thing throughout, and the volume's record
// names it. Of a PV that is not so, the loop says what is wrong.
//
// The error is an ErrNotReady where the pool is not ready; the PV was examined
// then, and the pool is returned.
func (c *Controller) Examine(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	s := c.shapeOf(pv)
	if s == nil {
		return nil, volume.Volume{}, fmt.Errorf("node %s serves no PVs like this one", c.node)
	}
	pool, name, err := s.examine(pv)
	if err != nil {
		return nil, volume.Volume{}, err
	}
	v, err := pool.Get(name)
	if err != nil {
		return pool, volume.Volume{}, err
	}
	return pool, v, s.matches(v, pv)
}

// Warn says a Warning about the claim, as the loop does its own: unless that
// topic was said within the hour, by whichever agent.
func (c *Controller) Warn(ctx context.Context, claim *corev1.PersistentVolumeClaim, topic, reason, message string) {
	c.speaker.warn(ctx, claimRef(claim), topic, reason, message)
}

// Note says what is no fault, as Warn does.
func (c *Controller) Note(ctx context.Context, claim *corev1.PersistentVolumeClaim, topic, reason, message string) {
	c.speaker.note(ctx, claimRef(claim), topic, reason, message)
}

// WarnPV says a Warning about a PV, as Warn does about a claim.
func (c *Controller) WarnPV(ctx context.Context, pv *corev1.PersistentVolume, topic, reason, message string) {
	c.speaker.warn(ctx, volumeRef(pv), topic, reason, message)
}

// Unlabelled returns the PVs of this node that have no label of ours, as last
// swept: older ones that are about to get it, and those that are refused.
func (c *Controller) Unlabelled() []corev1.PersistentVolume { return *c.older.Load() }
