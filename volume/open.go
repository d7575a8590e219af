package volume

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/file"
)

// open fills the handle. Up to the lock it changes nothing that it was not
// admitted to.
func (p *Pool) open(h *handle) (err error) {
	if p.config.NotOffered != "" {
		return fmt.Errorf("%w: %s", ErrNotReady, p.config.NotOffered)
	}
	disk, err := p.mounted()
	if err != nil {
		return err
	}
	if err := check(p.path); err != nil {
		return err
	}
	var expected Expected
	if p.config.Expected != nil {
		expected = p.config.Expected()
	}
	if h.base, err = openBase(p.path); err != nil {
		return err
	}
	if h.base >= 0 {
		if h.private, err = openPrivate(h.base); err != nil {
			return err
		}
	}
	if h.private >= 0 && file.IsEmpty(h.base, privateName) {
		expected.Volumes = nil // an administrator made it; see admit
	}
	if err := p.admit(h, expected); err != nil {
		return err
	}
	if h.base < 0 {
		if h.base, err = p.makeBase(p.path); err != nil {
			return err
		}
	}
	if err := h.liesOn(disk); err != nil {
		return err
	}
	if err := checkBase(h.base); err != nil {
		return err
	}
	if err := p.layout(h); err != nil {
		return err
	}
	if err := p.take(h); err != nil {
		return err
	}
	return p.start(h, expected)
}

// admit asks whether what was opened may be the pool.
func (p *Pool) admit(h *handle, e Expected) (err error) {
	place := "the directory has no identity"
	if h.base < 0 {
		place = "there is no directory"
	}
	if h.private >= 0 {
		if h.id, err = readIdentity(h.private); err != nil {
			return err
		}
	}
	return admit(e, p.ID(), h.id.ID, place, func(name string) bool {
		return h.base >= 0 && CheckName(name) == nil && !file.IsEmpty(h.base, name)
	})
}

// layout makes what is missing of the private directory, for us alone, and
// opens it.
func (p *Pool) layout(h *handle) (err error) {
	if h.private < 0 {
		if h.private, err = p.makeDir(h.base, privateName, "open.private"); err != nil {
			return err
		}
	}
	for _, dir := range []struct {
		fd   *int
		name string
	}{{&h.records, recordsName}, {&h.staging, stagingName}, {&h.trash, trashName}} {
		if *dir.fd, err = p.makeDir(h.private, dir.name, "open."+dir.name); err != nil {
			return err
		}
	}
	p.step("open.sync")
	return file.Flush(h.private, h.base)
}

// start does what only the holder of the lock may: it founds an identity if
// there still is none, and recovers.
func (p *Pool) start(h *handle, e Expected) error {
	// Another process may have founded the pool before it gave up the lock.
	if err := p.admit(h, e); err != nil {
		return err
	}
	var err error
	if h.id.ID == "" {
		if h.id, err = p.found(h.private); err != nil {
			return err
		}
	}
	if err := h.locate(); err != nil {
		return err
	}
	if h.filesystem, err = filesystemOf(h.at.mount); err != nil {
		return err
	}
	if h.label, err = p.chooseLabel(h); err != nil {
		return err
	}
	if err := p.probe(h); err != nil {
		return err
	}
	if err := p.recover(h); err != nil {
		return err
	}
	p.setID(h.id.ID, h.filesystem)
	return nil
}
