package csi

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
)

// ephemeralPool is where a pod's own volume goes that names no pool: the
// default pool if there is one, else the first.
func (s *Server) ephemeralPool(name string) (*volume.Pool, error) {
	if p, err := s.pool(name); err == nil || name != "" {
		return p, err
	}
	return s.config.Pools.All()[0], nil
}

// publishInline makes a pod's own volume and mounts it. Where it cannot be
// mounted, one that was made for this call is unmade: kubelet need not come
// back to unpublish what was never published.
func (s *Server) publishInline(p *publication, target *Target) error {
	// The collector looks for the pod's directory by this UID.
	p.inline.Owner.UID = cmp.Or(target.Pod, p.inline.Owner.UID)
	_, err := p.pool.Get(p.volume.Name)
	fresh := errors.Is(err, volume.ErrNotFound)
	if _, err := s.config.Pools.Create(p.pool, *p.inline); err != nil {
		return err
	}
	if err := target.Publish(p.pool, p.volume); err != nil {
		if fresh {
			err = errors.Join(err, p.pool.Undo(p.volume.Name))
		}
		return err
	}
	if fresh {
		s.config.Changed(p.pool)
	}
	return nil
}

// dropEphemeral deletes the volume if its record says that it is a pod's own.
//
// A pool that is not ready cannot be asked. What this process remembers of the
// volume decides then: an ephemeral one waits for its pool, and any other is
// done with, so that a broken disk keeps no pod from ending. Before the pools are
// opened for the first time nothing is remembered: what may be an inline volume
// waits until then. A pool that was opened in vain is not waited for, because
// the collector finds the volume when the disk is back.
func (s *Server) dropEphemeral(name, target string) error {
	err := s.remove(name, func(v volume.Volume) bool { return v.Ephemeral })
	if err == nil {
		return nil
	}
	var early error
	if s.maybeInline(name, target) {
		// Before the records are asked: a pool that is opened meanwhile has them then.
		early = s.notOpened()
	}
	for _, p := range s.config.Pools.All() {
		if r, known := p.Remembered(name); known && r.Ephemeral {
			return fmt.Errorf("delete ephemeral volume %q of pool %s: %w", name, p.Name(), err)
		} else if known {
			return nil
		}
	}
	if early != nil {
		return fmt.Errorf("delete ephemeral volume %q, if it is one: %w", name, early)
	}
	return nil
}

// notOpened returns the error of a pool that was not opened yet in this process's
// life, nil if there is none.
func (s *Server) notOpened() error {
	for _, p := range s.config.Pools.All() {
		if err := p.Ready(); errors.Is(err, volume.ErrNotOpened) {
			return err
		}
	}
	return nil
}

// inlinePrefix begins the handles that the kubelet gives to inline volumes; see
// makeVolumeHandle of pkg/volume/csi/csi_mounter.go in Kubernetes.
const inlinePrefix = "csi-"

// maybeInline reports whether a volume without a known record may be a pod's own.
// One whose target names a PV of the same name is not.
func (s *Server) maybeInline(name, target string) bool {
	_, pv := s.targets.Parse(target)
	return strings.HasPrefix(name, inlinePrefix) && pv != name
}
