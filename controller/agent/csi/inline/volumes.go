// Package inline makes and deletes ephemeral inline volumes: those that a pod's own
// specification asks for and that live as long as the pod.
package inline

import (
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Volumes makes and deletes the ephemeral inline volumes of the node.
type Volumes struct {
	Pools      *volume.Pools
	KubeletDir string
	// Changed is called after a volume was made in or deleted from the pool.
	Changed func(*volume.Pool)
}

// Publish creates the volume, unless it exists, and calls mount. It creates none if may returns an
// error. If mount fails, it removes a volume that this call
// created: the kubelet need not unpublish a volume that was never published.
func (v *Volumes) Publish(pool *volume.Pool, spec volume.Spec, may, mount func() error) error {
	_, err := pool.Get(spec.Name)
	created := errors.Is(err, volume.ErrNotFound)
	if refused := may(); err != nil && refused != nil {
		if created {
			return refused
		}
		return fmt.Errorf("read the record of inline volume %q: %w", spec.Name, err) // it may exist
	}
	if _, err := v.Pools.Create(pool, spec); err != nil {
		return err
	}
	if err := mount(); err != nil {
		if created {
			err = errors.Join(err, pool.RollBack(spec.Name))
		}
		return err
	}
	if created {
		v.Changed(pool)
	}
	return nil
}

// Delete deletes the volume if its record is of an inline volume; pv is the PV that
// its target names, if any.
//
// The record of a pool that is not ready cannot be read. The record that this process remembers
// decides then: an inline volume waits for its pool. Delete does nothing about any other, so that a
// broken disk keeps no pod from ending. Before the pools are opened for the first time, the process
// remembers none, and a volume that may be inline waits. It does not wait for a pool that could not
// be opened, because Collect finds the volume when the disk is back.
func (v *Volumes) Delete(name, pv string) error {
	pool, err := v.Pools.Delete(name, func(v volume.Volume) bool { return v.Ephemeral })
	if err == nil {
		if pool != nil {
			v.Changed(pool)
		}
		return nil
	}
	var notOpened error
	if maybeInline(name, pv) {
		// Before the records: a pool that is opened meanwhile has them then.
		notOpened = v.notOpened()
	}
	for _, p := range v.Pools.All() {
		if r, known := p.Cached(name); known && r.Ephemeral {
			return fmt.Errorf("delete ephemeral volume %q of pool %s: %w", name, p.Name(), err)
		} else if known {
			return nil
		}
	}
	if notOpened != nil {
		return fmt.Errorf("delete ephemeral volume %q, if it is one: %w", name, notOpened)
	}
	return nil
}

// notOpened returns the error of a pool that this process has yet to open, nil if there is none.
func (v *Volumes) notOpened() error {
	for _, p := range v.Pools.All() {
		if err := p.Ready(); errors.Is(err, fault.ErrNotOpened) {
			return err
		}
	}
	return nil
}

// handlePrefix begins the handles that the kubelet gives to inline volumes; see
// makeVolumeHandle of pkg/volume/csi/csi_mounter.go in Kubernetes.
const handlePrefix = "csi-"

// maybeInline reports whether a volume without a known record may be inline. One whose
// target names a PV of the same name is not.
func maybeInline(name, pv string) bool {
	return strings.HasPrefix(name, handlePrefix) && pv != name
}
