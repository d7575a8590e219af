package csi

import (
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
