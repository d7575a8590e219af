package pooldir

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// open opens everything in the directory. Until it has the lock, it changes nothing in a directory
// that admit did not accept.
func (o *Opener) open(c *bounded.Call, d *Dir) (err error) {
	if o.config.NotOffered != "" {
		return fmt.Errorf("%w: %s", fault.ErrNotReady, o.config.NotOffered)
	}
	expected := o.config.Expected()
	if s, _ := o.config.Selected(); s != Selected && !o.isFounded() {
		if err := o.mayFound(expected); err != nil {
			return err
		}
	}
	o.elsewhere.Store(nil)
	disk, err := o.mounted()
	if err != nil {
		return err
	}
	if err := check(o.config.Path); err != nil {
		return err
	}
	if d.Base, err = openBase(o.config.Path); err != nil {
		return err
	}
	if d.Base >= 0 {
		if d.Private, err = openDir(d.Base, PrivateName); err != nil {
			return err
		}
	}
	if d.Private >= 0 && file.IsEmpty(d.Base, PrivateName) {
		expected.Volumes = nil // an administrator made it; see admit
	}
	if err := o.admit(d, expected); err != nil {
		return err
	}
	if d.Base < 0 {
		if d.Base, err = o.makeBase(o.config.Path); err != nil {
			return err
		}
	}
	if err := d.liesOn(disk); err != nil {
		return err
	}
	if err := checkBase(d.Base); err != nil {
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

func (o *Opener) admit(d *Dir, e Expected) (err error) {
	place := "the directory has no identity"
	if d.Base < 0 {
		place = "there is no directory"
	}
	if d.Private >= 0 {
		if d.ID, err = readIdentity(d.Private); err != nil {
			return err
		}
	}
	return admit(e, o.ID(), d.ID.ID, place, func(name string) bool {
		return d.Base >= 0 && fault.CheckName(name) == nil && !file.IsEmpty(d.Base, name)
	})
}

// layout opens the directories in the private one, and creates missing ones for the agent alone.
func (o *Opener) layout(d *Dir) (err error) {
	if d.Private < 0 {
		if d.Private, err = makeDir(d.Base, PrivateName, "open.private", o.config.Step); err != nil {
			return err
		}
	}
	for _, dir := range []struct {
		fd   *int
		name string
	}{{&d.Records, RecordsName}, {&d.Staging, StagingName}, {&d.Trash, TrashName}} {
		if *dir.fd, err = makeDir(d.Private, dir.name, "open."+dir.name, o.config.Step); err != nil {
			return err
		}
	}
	if d.kept, err = openDir(d.Private, KeptName); err != nil {
		return err
	}
	o.config.Step("open.sync")
	return file.Flush(d.Private, d.Base)
}

// start does what requires the lock: it founds an identity if there is none, and prepares the pool.
func (o *Opener) start(c *bounded.Call, d *Dir, e Expected) error {
	// Another process may have founded the pool before it released the lock.
	if err := o.admit(d, e); err != nil {
		return err
	}
	var err error
	if d.ID.ID == "" {
		if err := o.mayFound(e); err != nil {
			return err
		}
		if d.ID, err = o.found(d.Private); err != nil {
			return err
		}
	}
	if err := d.locate(); err != nil {
		return err
	}
	if d.Filesystem, err = filesystemOf(d.at.mount); err != nil {
		return err
	}
	if d.label, err = o.chooseLabel(d); err != nil {
		return err
	}
	d.step, d.labelIfPossible = o.config.Step, o.config.Label == LabelAuto
	if err := o.config.Prepare(c, d); err != nil {
		return err
	}
	o.opened(d.ID.ID, d.Filesystem)
	return nil
}

// OpenToRead opens an existing pool for reading. It creates nothing and takes no lock. The caller
// closes the directory.
func OpenToRead(path string) (*Dir, error) {
	d := newDir()
	if err := d.openToRead(path); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Dir) openToRead(path string) (err error) {
	if err := CheckKernel(); err != nil {
		return err
	}
	if d.Base, err = openBase(path); err != nil {
		return err
	}
	if d.Base < 0 {
		return fmt.Errorf("%w: there is no directory; the path is wrong, or its disk is not mounted", fault.ErrNotReady)
	}
	if d.at, err = placeOf(d.Base, ".", 0); err != nil {
		return err
	}
	if d.Private, err = openDir(d.Base, PrivateName); err != nil {
		return err
	}
	if d.Private >= 0 {
		if d.ID, err = readIdentity(d.Private); err != nil {
			return err
		}
	}
	if d.ID.ID == "" {
		return fmt.Errorf("%w: the directory is no pool; the path is wrong, or its disk is not mounted", fault.ErrNotReady)
	}
	all := map[string]*int{RecordsName: &d.Records, StagingName: &d.Staging, TrashName: &d.Trash, KeptName: &d.kept}
	for name, fd := range all {
		if *fd, err = openDir(d.Private, name); err != nil {
			return err
		}
	}
	return nil
}
