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
	if p := s.config.Pools.Named(name); p != nil {
		return p, nil
	}
	return nil, invalid("%s: there is no pool %q on this node; there are %q", class.StoragePool, name, s.config.Pools.Names())
}

// ephemeralPool is where a pod's own volume goes that names no pool: the
// default pool if there is one, else the first.
func (s *Server) ephemeralPool(name string) (*volume.Pool, error) {
	if p, err := s.pool(name); err == nil || name != "" {
		return p, err
	}
	return s.config.Pools.All()[0], nil
}

// find looks for the volume in every pool, as Pools.Find does. Where nobody
// shows this process the PVs (Config.Adopt), a directory that an older driver
// made is taken for the volume of its name and given a record first.
//
// Only the names that Kubernetes itself gives are: nobody can ask for another's
// by naming his own volume so, because the UID of a claim is not chosen.
func (s *Server) find(name string, context map[string]string) (*volume.Pool, volume.Volume, error) {
	pool, v, err := s.config.Pools.Find(name)
	if !s.config.Adopt || !errors.Is(err, volume.ErrNotFound) || claimUID(name) == "" {
		return pool, v, err
	}
	// What was promised for it nobody says: nothing is, and its data counts as
	// others' do.
	spec := volume.Spec{Name: name, PV: name, Owner: ownerOf(name, context)}
	for _, p := range s.config.Pools.All() {
		if p.NotOffered() != "" {
			continue
		}
		v, why := p.Adopt(spec)
		switch {
		case why == nil:
			return p, v, nil
		case !errors.Is(why, volume.ErrNotFound) && !errors.Is(why, volume.ErrInvalid):
			return nil, volume.Volume{}, fmt.Errorf("a directory of this name has no record: %w", why)
		}
	}
	return nil, volume.Volume{}, err
}
