package volume

import (
	"errors"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/health"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Health returns how the volumes are that are in place and published, by name.
// A volume is published while some mount shows a directory of its name, on
// whatever disk. It costs one look at each of their directories, and one at
// the filesystem and at the mounts for all.
//
// While the pool is not ready, the answer is about the volumes that this
// process remembers, and says why. The error is of the operating system, where
// it does not say what is mounted.
func (p *Pool) Health() ([]health.Health, error) {
	const op = "examine volumes"
	var all []health.Health
	err := p.visit(op, func(h *handle) (err error) {
		all, err = health.Examine(examinedPool{p, h}, h.Dir, h.call.Progress)
		return err
	})
	if errors.Is(err, ErrNotReady) {
		unready, err := health.Unready(examinedPool{Pool: p}, err)
		return unready, fault.Failed(op, p.path, err)
	}
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// examinedPool is the pool as package health sees it, in one call.
type examinedPool struct {
	*Pool
	h *handle
}

func (e examinedPool) InPlace() []Record { return e.records.InPlace() }

func (e examinedPool) ReadCounters() { e.meter(e.h) }

func (e examinedPool) Use(volume string) (use space.Use, lost string) {
	r, _ := e.records.Get(volume)
	return e.ledger.Use(r), e.quotas.Lost(volume)
}
