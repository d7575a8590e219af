package trash

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Leave renames a kept volume into the trash, its directory before its record, as far as that was not
// done before (row K1). A purge flushes both before it removes anything. The caller has made sure that
// the volume is not being brought back.
func (t *Trash) Leave(d *pooldir.Dir, id string) error {
	kept, name := d.Kept(), id+record.Suffix
	there, err := file.Exists(kept, id)
	if err != nil {
		return err
	}
	if there {
		t.step("kept.rename")
		switch err := tree.Rename(kept, id, d.Trash, id); {
		case err == unix.EBUSY:
			return fmt.Errorf("%w: something is mounted on it", fault.ErrInUse)
		case err != nil:
			return fault.Path("rename", id, err)
		}
	}
	t.step("kept.record")
	if err := unix.Renameat(kept, name, d.Trash, name); err != nil && err != unix.ENOENT {
		return fault.Path("rename", name, err)
	}
	// After a power cut on btrfs both names can be links of one file, for which rename(2) does nothing.
	if there, err := file.Exists(kept, name); !there || err != nil {
		return err
	}
	t.step("kept.unlink")
	return file.Remove(kept, name)
}

// ReadWhole reads the record of a kept volume. The error is an ErrDamaged if it cannot be understood.
func ReadWhole(kept int, id string) (record.Record, error) {
	data, err := file.Read(kept, id+record.Suffix)
	if err != nil {
		return record.Record{}, err
	}
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return record.Record{}, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	r, err := record.Parse(named.Name, data)
	if err == nil && r.Trash != id {
		err = fmt.Errorf("%w: its record is that of %q", fault.ErrDamaged, r.Trash)
	}
	return r, err
}
