package trash

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Move renames a volume's directory into the trash, where it is the entry id. The caller flushes
// both directories. The error is ErrInUse where something is mounted on the directory.
func (t *Trash) Move(d *pooldir.Dir, name, id string) error {
	move := func() error {
		return unix.Renameat2(d.Base, name, d.Trash, id, unix.RENAME_NOREPLACE)
	}
	err := move()
	if err == unix.EPERM || err == unix.EROFS {
		t.step("delete.unlock")
		if tree.Unlock(d.Base, name) {
			t.step("delete.again")
			err = move()
		}
	}
	if err == unix.EBUSY {
		return fmt.Errorf("%w: something is mounted on it", fault.ErrInUse)
	}
	return fault.Path("rename", name, err)
}
