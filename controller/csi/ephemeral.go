package csi

import (
	"errors"
	"fmt"

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

// publishEphemeral makes a pod's own volume and mounts it. Where it cannot be
// mounted, one that was made for this call is unmade: kubelet need not come
// back to unpublish what was never published.
func (s *Server) publishEphemeral(p *publication) error {
	_, err := p.pool.Get(p.name)
	fresh := errors.Is(err, volume.ErrNotFound)
	if _, err := s.config.Pools.Create(p.pool, *p.make); err != nil {
		return err
	}
	if err := p.mount(); err != nil {
		if fresh {
			err = errors.Join(err, p.pool.Undo(p.name))
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
// done with, so that a broken disk keeps no pod from ending.
func (s *Server) dropEphemeral(name string) error {
	err := s.remove(name, func(v volume.Volume) bool { return v.Ephemeral })
	if err == nil {
		return nil
	}
	for _, p := range s.config.Pools.All() {
		if r, known := p.Remembered(name); known && r.Ephemeral {
			return fmt.Errorf("delete ephemeral volume %q of pool %s: %w", name, p.Name(), err)
		}
	}
	return nil
}
