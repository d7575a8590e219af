package target

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Errors of Publish, for errors.Is.
var (
	// ErrKind: the volume is ephemeral and the request's is not, or the reverse.
	ErrKind = errors.New("volume is of another kind")
	// ErrPV: the target is for another PV than the volume.
	ErrPV = errors.New("volume of another PV")
)

// Volume is a volume to publish.
type Volume struct {
	Name      string
	Flags     mount.Flags
	Single    bool // no other target may have it mounted
	Ephemeral bool // it is an ephemeral inline volume
}

// Publish mounts the directory of the pool's volume at the target. It does nothing if
// the directory is mounted there with the same flags. The volume is pinned from the
// checks to the mount, so that it is not deleted between them.
func (t *Target) Publish(pool *volume.Pool, v Volume) error {
	var found volume.Volume
	err := pool.Pin(v.Name, func(pinned volume.Pinned) error {
		found = pinned.Volume
		if err := t.check(v, pinned); err != nil {
			return err
		}
		return t.mount.Bind(pinned.Dir, v.Flags)
	})
	if err != nil || found.PV == "" || found.State != record.Ready {
		return err
	}
	// The volume may have data from now on: its record notes that no empty directory may replace it.
	_, err = pool.Bind(v.Name, volume.Binding{PV: found.PV})
	return err
}

func (t *Target) check(v Volume, pinned volume.Pinned) error {
	if pinned.Ephemeral != v.Ephemeral {
		return fmt.Errorf("%w: recorded as ephemeral %v, published as ephemeral %v", ErrKind, pinned.Ephemeral, v.Ephemeral)
	}
	if err := t.checkPV(pinned.Volume); err != nil {
		return err
	}
	if !v.Single {
		return nil
	}
	return t.checkSingle(pinned.MountedAt)
}

// checkPV refuses a volume that is recorded for another PV than the target's. A user who may write
// PVs could otherwise put another tenant's handle into a PV of his own and read that tenant's data.
// A volume whose record has no PV yet belongs to any PV that has its handle.
func (t *Target) checkPV(v volume.Volume) error {
	if v.Ephemeral || t.PV == "" || v.PV == "" || t.PV == v.PV {
		return nil
	}
	return fmt.Errorf("%w: it belongs to PV %q, and PV %q has its handle; use it by a PV of the name %q", ErrPV, v.PV,
		t.PV, v.PV)
}

// checkSingle refuses a volume that is mounted at another target.
func (t *Target) checkSingle(points []string) error {
	here, err := t.mount.Point()
	if err != nil {
		return err
	}
	other := func(point string) bool { return point != here && (t.PV == "" || !samePodSubpath(here, point)) }
	if i := slices.IndexFunc(points, other); i >= 0 {
		return fmt.Errorf("%w: it is for a single writer, and mounted at %s", volume.ErrInUse, points[i])
	}
	return nil
}

// samePodSubpath reports whether point is a mount that the kubelet made of a subPath for a
// container of the pod whose target is here: the kubelet makes them below <kubelet>/pods/<pod's
// UID>/volume-subpaths and keeps them while it restarts, see getSubpathBindTarget of
// pkg/volume/util/subpath in Kubernetes. here has the form that Parse accepts. Any other mount
// below the pod's directory is a second target, which the CSI spec refuses to a single writer.
func samePodSubpath(here, point string) bool {
	return strings.HasPrefix(point, filepath.Join(here, "../../../../volume-subpaths")+"/")
}
