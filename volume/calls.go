package volume

import (
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// step announces a change to the disk.
func (p *Pool) step(name string) { p.config.Step(name) }

// steps announces the parts of a change: "record" becomes "record.write".
func (p *Pool) steps(of string) func(part string) {
	return func(part string) { p.step(of + "." + part) }
}

// checkName refuses what can never be a volume of this pool.
func (p *Pool) checkName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if slices.Contains(p.config.Inner, name) {
		return fmt.Errorf("%w: the name %q is that of a pool inside this one", ErrInvalid, name)
	}
	return nil
}

// on calls do for one volume: the name is right, the pool is open, nobody else
// works on the volume, and nothing of it is half done. See bounded.Calls for what becomes of
// do where the disk does not answer.
func (p *Pool) on(op, name string, do func(*handle) error) error {
	err := p.checkName(name)
	if err == nil {
		err = p.enter(op, func(h *handle) error {
			return p.locked(h, name, func() error { return do(h) })
		})
	}
	return fault.Failed(op, name, err)
}

// locked calls do while nobody else works on the volume, and nothing of it is
// half done.
func (p *Pool) locked(h *handle, name string, do func() error) error {
	unlock, err := p.names.Lock(h.call, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.records.Damage(name); err != nil {
		return err
	}
	if err := p.settle(h, name); err != nil {
		return err
	}
	if err := h.call.StillWanted(); err != nil {
		return err
	}
	return do()
}

func (p *Pool) volume(h *handle, r Record, missing bool) Volume {
	return Volume{
		Record: r, Path: p.path + "/" + r.Name, Missing: missing,
		QuotaEnforced: h.quotas.Enforced(r), NotEnforced: h.quotas.NotEnforced(r),
	}
}

// Get returns the volume if it is ready or bound: one that is being made or
// removed right now is ErrNotFound. Missing tells whether its directory is
// there. A record that cannot be understood is ErrDamaged.
func (p *Pool) Get(name string) (Volume, error) {
	const op = "get volume"
	if err := p.checkName(name); err != nil {
		return Volume{}, fault.Failed(op, name, err)
	}
	var v Volume
	err := p.enter(op, func(h *handle) error {
		if err := p.records.Damage(name); err != nil {
			return err
		}
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		there, err := file.IsDir(h.Base, name)
		v = p.volume(h, r, !there)
		return err
	})
	if err != nil {
		return Volume{}, fault.Failed(op, name, err)
	}
	return v, nil
}

// ByPV returns the volume that the PV names, as Get does. A name that no
// record has, the empty one among them, is ErrNotFound.
func (p *Pool) ByPV(pv string) (Volume, error) {
	const op = "get volume of PV"
	var v Volume
	err := p.enter(op, func(h *handle) error {
		found := p.records.Sorted(func(r Record) bool { return pv != "" && r.PV == pv && r.InPlace() })
		if len(found) == 0 {
			return ErrNotFound
		}
		there, err := file.IsDir(h.Base, found[0].Name)
		v = p.volume(h, found[0], !there)
		return err
	})
	if err != nil {
		return Volume{}, fault.Failed(op, pv, err)
	}
	return v, nil
}

// List returns the volumes that are ready or bound, sorted by name.
func (p *Pool) List() ([]Volume, error) {
	const op = "list volumes"
	var all []Volume
	err := p.visit(op, func(h *handle) error {
		for _, r := range p.records.InPlace() {
			h.call.Progress()
			there, err := file.IsDir(h.Base, r.Name)
			if err != nil {
				return err
			}
			all = append(all, p.volume(h, r, !there))
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// Warnings returns what an administrator should know of an open pool: a
// directory that the node's other users can enter, and what the last start
// found and left alone. None of it keeps the pool from working.
func (p *Pool) Warnings() []string {
	var loose []string
	open := false
	err := p.dir.Look("look at pool", func(d *pooldir.Dir) {
		open, loose = true, pooldir.LooseMode(d.Base, p.path)
	})
	if err != nil || !open {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(loose, p.notes...)
}

// Damaged returns the records that cannot be understood, with the reason, in
// the order of their names. They are left as they are, and so are their
// volumes.
func (p *Pool) Damaged() []string { return p.records.Damaged() }
