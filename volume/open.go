package volume

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// open fills the directory. Up to the lock it changes nothing that it was not
// admitted to.
func (o *opener) open(c *bounded.Call, d *dir) (err error) {
	if o.config.NotOffered != "" {
		return fmt.Errorf("%w: %s", ErrNotReady, o.config.NotOffered)
	}
	disk, err := o.mounted()
	if err != nil {
		return err
	}
	if err := check(o.config.Path); err != nil {
		return err
	}
	expected := o.config.Expected()
	if d.base, err = openBase(o.config.Path); err != nil {
		return err
	}
	if d.base >= 0 {
		if d.private, err = openPrivate(d.base); err != nil {
			return err
		}
	}
	if d.private >= 0 && file.IsEmpty(d.base, privateName) {
		expected.Volumes = nil // an administrator made it; see admit
	}
	if err := o.admit(d, expected); err != nil {
		return err
	}
	if d.base < 0 {
		if d.base, err = o.makeBase(o.config.Path); err != nil {
			return err
		}
	}
	if err := d.liesOn(disk); err != nil {
		return err
	}
	if err := checkBase(d.base); err != nil {
		return err
	}
	if err := o.layout(d); err != nil {
		return err
	}
	if err := o.take(d); err != nil {
		return err
	}
	return o.start(c, d, expected)
}

// admit asks whether what was opened may be the pool.
func (o *opener) admit(d *dir, e Expected) (err error) {
	place := "the directory has no identity"
	if d.base < 0 {
		place = "there is no directory"
	}
	if d.private >= 0 {
		if d.id, err = readIdentity(d.private); err != nil {
			return err
		}
	}
	return admit(e, o.ID(), d.id.ID, place, func(name string) bool {
		return d.base >= 0 && CheckName(name) == nil && !file.IsEmpty(d.base, name)
	})
}

// layout makes what is missing of the private directory, for us alone, and
// opens it.
func (o *opener) layout(d *dir) (err error) {
	if d.private < 0 {
		if d.private, err = o.makeDir(d.base, privateName, "open.private"); err != nil {
			return err
		}
	}
	for _, dir := range []struct {
		fd   *int
		name string
	}{{&d.records, recordsName}, {&d.staging, stagingName}, {&d.trash, trashName}} {
		if *dir.fd, err = o.makeDir(d.private, dir.name, "open."+dir.name); err != nil {
			return err
		}
	}
	o.config.Step("open.sync")
	return file.Flush(d.private, d.base)
}

// start does what only the holder of the lock may: it founds an identity if
// there still is none, and prepares the pool.
func (o *opener) start(c *bounded.Call, d *dir, e Expected) error {
	// Another process may have founded the pool before it gave up the lock.
	if err := o.admit(d, e); err != nil {
		return err
	}
	var err error
	if d.id.ID == "" {
		if d.id, err = o.found(d.private); err != nil {
			return err
		}
	}
	if err := d.locate(); err != nil {
		return err
	}
	if d.filesystem, err = filesystemOf(d.at.mount); err != nil {
		return err
	}
	if d.label, err = o.chooseLabel(d); err != nil {
		return err
	}
	d.step, d.labelIfPossible = o.config.Step, o.config.Label == LabelAuto
	if err := o.config.Prepare(c, d); err != nil {
		return err
	}
	o.opened(d.id.ID, d.filesystem)
	return nil
}
