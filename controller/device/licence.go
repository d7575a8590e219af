package device

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// free returns nil if the API server itself, and no cache, knows nothing against a wipe: no PV of
// the node but the one with the UID `own` is on the device, on the disk that it is a partition of,
// or on a partition of it, and no claim names the PV. The error is disk.ErrBusy otherwise, or that
// of the API server.
func (c *Controller) free(ctx context.Context, node *corev1.Node, d disk.Device, pv string, own types.UID) error {
	var busy error
	if err := live.EachPV(ctx, c.Client, func(other *corev1.PersistentVolume) bool {
		path := localPath(other)
		if other.UID == own || path == "" || elsewhere(other, node) {
			return true
		}
		if n, err := disk.Resolve(path); err == nil && disk.Overlap(n, d.Number) {
			busy = &disk.BusyError{Path: d.Path, Why: fmt.Sprintf("in use: PV %s is on it, at %s", other.Name, path)}
		}
		return busy == nil
	}); err != nil {
		return err
	}
	if busy != nil {
		return busy
	}
	if err := live.EachClaim(ctx, c.Client, func(claim *corev1.PersistentVolumeClaim) bool {
		if claim.Spec.VolumeName == pv {
			busy = &disk.BusyError{Path: d.Path, Why: fmt.Sprintf("in use: claim %s/%s names PV %s; delete the claim", claim.Namespace, claim.Name, pv)}
		}
		return busy == nil
	}); err != nil {
		return err
	}
	return busy
}

// stillReleased returns the PV as the API server has it, if it has the same UID and is Released. The
// error is errEnded if not.
func (c *Controller) stillReleased(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	now, err := live.PV(ctx, c.Client, pv.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != pv.UID:
		return nil, fmt.Errorf("%w: PV %s is gone", errEnded, pv.Name)
	case now.Status.Phase != corev1.VolumeReleased || localPath(now) != localPath(pv):
		return nil, fmt.Errorf("%w: PV %s is not Released any more", errEnded, pv.Name)
	}
	return now, nil
}
