package csi

import (
	"errors"
	"fmt"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// pool returns the pool of that name, "" meaning the default one.
func (s *Server) pool(name string) (*volume.Pool, error) {
	if name == "" {
		name = class.DefaultPool
	}
	var known []string
	for _, p := range s.config.Pools {
		if p.Name() == name {
			return p, nil
		}
		known = append(known, p.Name())
	}
	return nil, invalid("%s: there is no pool %q on this node; there are %q", class.StoragePool, name, known)
}

// find looks for the volume in every pool, by its record.
//
// The error is ErrNotFound where all pools answered and none has it. Where one
// could not answer, the volume may be there, and the error is that pool's.
func (s *Server) find(name string) (*volume.Pool, volume.Volume, error) {
	if err := volume.CheckName(name); err != nil {
		return nil, volume.Volume{}, err
	}
	var failed error
	for _, p := range s.config.Pools {
		v, err := p.Get(name)
		switch {
		case err == nil:
			return p, v, nil
		case errors.Is(err, volume.ErrInvalid), errors.Is(err, volume.ErrNotFound):
			// Invalid here is the name of a pool inside this one.
		case failed == nil:
			failed = err
		}
	}
	if failed == nil {
		failed = fmt.Errorf("volume %q: %w", name, volume.ErrNotFound)
	}
	return nil, volume.Volume{}, failed
}
