package volume

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// meter reads what the volumes with limits use.
func (p *Pool) meter(h *handle) { p.filesystems.Load().Read(h.Filesystem, p.counters(h, nil)) }

// counters adds a reading of the pool to those that were begun before. It does nothing
// if that was done a moment ago.
func (p *Pool) counters(h *handle, before []space.Reading) []space.Reading {
	if h.quotas.Support.Method == quota.MethodNone {
		return before
	}
	return p.ledger.ReadCounters(before,
		func() (int64, error) {
			st, err := h.Statfs()
			if err != nil {
				return 0, err
			}
			return p.filesystems.Load().Risen(h.Filesystem, st), nil
		},
		func(r Record) (int64, bool) {
			h.call.Progress()
			return p.meterOne(h, r)
		})
}

// meterOne forgets what a volume used if the kernel does not say any more.
func (p *Pool) meterOne(h *handle, r Record) (written int64, ok bool) {
	u, err := h.quotas.Meter(r)
	if err != nil {
		p.ledger.Uncount(r)
		return 0, false
	}
	return u.Bytes - u.Unwritten, p.ledger.Count(r, u.Bytes)
}

// Uses returns what the volumes that are in place use, sorted by name. It walks
// nothing: counters of the kernel may be a second old, walks as old as the last
// Measure.
func (p *Pool) Uses() ([]Use, error) {
	const op = "list what volumes use"
	var all []Use
	err := p.enter(op, func(h *handle) error {
		p.meter(h)
		for _, r := range p.records.InPlace() {
			all = append(all, p.ledger.Use(r))
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// asNoQuota is the error of this package for a directory without a limit.
func asNoQuota(err error) error {
	switch {
	case errors.Is(err, quota.ErrNone), errors.Is(err, quota.ErrUnlimited), errors.Is(err, quota.ErrForeign):
		return fmt.Errorf("%w: %w", ErrNoQuotas, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
	}
	return err
}

// Usage returns what the kernel counts for a volume with a limit, and the
// limit in force. What was removed a moment ago may still be in it.
//
// The error is ErrNotFound where there is no volume, ErrNoQuotas where it has
// no limit.
func (p *Pool) Usage(name string) (quota.Usage, error) {
	const op = "read the usage of volume"
	if err := p.checkName(name); err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	var u quota.Usage
	err := p.enter(op, func(h *handle) (err error) {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		u, err = h.quotas.Usage(r)
		return asNoQuota(err)
	})
	if err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	return u, nil
}
