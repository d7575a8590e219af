package csi

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// pool returns the pool of that name; "" means the default pool.
func (s *Server) pool(name string) (*volume.Pool, error) {
	name = cmp.Or(name, contract.DefaultPool)
	if p := s.config.Pools.Named(name); p != nil {
		return p, nil
	}
	return nil, invalid("%s: there is no pool %q on this node; there are %q", contract.StoragePool, name,
		s.config.Pools.Names())
}

// inlinePool returns the pool of an inline volume. If the pod names none, that is the one that has
// the volume already, else the default pool, else the first. Pools that are not offered do not
// count, nor for a new volume those that may have none, unless that is so of all. The error is an
// ErrNotReady before this process has tried to open all of them: one of them may have the volume.
func (s *Server) inlinePool(name, volumeName string) (*volume.Pool, error) {
	if name != "" {
		return s.pool(name)
	}
	offered := slices.DeleteFunc(slices.Clone(s.config.Pools.All()),
		func(p *volume.Pool) bool { return p.NotOffered() != "" })
	var notOpened error
	for _, p := range offered { // before the records: a pool that is opened meanwhile has them then
		if err := p.Ready(); errors.Is(err, fault.ErrNotOpened) {
			notOpened = fmt.Errorf("pool %s, which may have the inline volume: %w", p.Name(), err)
		}
	}
	if i := slices.IndexFunc(offered, func(p *volume.Pool) bool { _, has := p.Cached(volumeName); return has }); i >= 0 {
		return offered[i], nil
	}
	if notOpened != nil {
		return nil, notOpened
	}
	for _, is := range []func(*volume.Pool) bool{
		func(p *volume.Pool) bool { return p.Name() == contract.DefaultPool && s.config.Inline.Allows(p.Name()) },
		func(p *volume.Pool) bool { return s.config.Inline.Allows(p.Name()) },
	} {
		if i := slices.IndexFunc(offered, is); i >= 0 {
			return offered[i], nil
		}
	}
	return append(offered, s.config.Pools.All()...)[0], nil
}

// locate returns the pool of a volume to publish: the one that the attributes of its PV name, else
// the one that has its record. If no pool has a record it calls Config.Unknown.
func (s *Server) locate(name string, attributes map[string]string) (pool *volume.Pool, err error) {
	if wanted := attributes[contract.StoragePool]; wanted != "" {
		if pool, err = s.pool(wanted); err != nil {
			return nil, err
		}
	}
	found, _, err := s.findOrAdopt(name, attributes)
	if errors.Is(err, volume.ErrNotFound) {
		s.config.Unknown()
	}
	// A named pool has the last word on the volume, unless another object has the volume's place.
	if pool != nil && !errors.Is(err, volume.ErrConflict) && !errors.Is(err, volume.ErrInUse) {
		return pool, nil
	}
	return found, err
}

// find returns the volume and its pool. If this process sees no PVs (Config.Adopt), a directory
// of that name that an older driver made counts as the volume; its record is not on the disk
// and has no state. find changes nothing.
//
// Only names that Kubernetes itself gives count. A user cannot take over another user's
// directory by the name of a volume, because Kubernetes chooses the UID of a claim.
func (s *Server) find(name string, context map[string]string) (*volume.Pool, volume.Volume, error) {
	pool, v, err := s.config.Pools.Find(name)
	if !s.config.Adopt || !errors.Is(err, volume.ErrNotFound) || claimUID(name) == "" {
		return pool, v, err
	}
	for _, p := range s.config.Pools.All() {
		if p.NotOffered() != "" {
			continue
		}
		switch _, why := p.Adoptable(name); {
		case why == nil:
			r := record.Record{Name: name, PV: name, Owner: ownerOf(name, context)}
			return p, volume.Volume{Record: r, Path: filepath.Join(p.Path(), name)}, nil
		case !errors.Is(why, volume.ErrNotFound) && !errors.Is(why, volume.ErrInvalid):
			return nil, volume.Volume{}, fmt.Errorf("a directory of this name has no record: %w", why)
		}
	}
	return nil, volume.Volume{}, err
}

// findOrAdopt is find for a caller that changes the volume: it adopts a directory that an older
// driver made. No source has the size that the older driver allocated: the record has none, and
// the data counts as that of other programs.
func (s *Server) findOrAdopt(name string, context map[string]string) (*volume.Pool, volume.Volume, error) {
	pool, v, err := s.find(name, context)
	if err != nil || v.State != "" {
		return pool, v, err
	}
	v, err = pool.Adopt(volume.Spec{Name: name, PV: v.PV, Owner: v.Owner})
	return pool, v, err
}
