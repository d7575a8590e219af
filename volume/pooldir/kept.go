package pooldir

import (
	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
)

// Kept returns the open directory of the deleted volumes that can be brought back, or -1 if there is
// none, because the pool never kept one.
func (d *Dir) Kept() int {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	return d.kept
}

// MakeKept is Kept for a caller that is about to keep a volume. It creates the directory, durably, if
// there is none. Two callers may do that at once: a lock over it would have every call of the pool wait
// for a disk that hangs.
func (d *Dir) MakeKept() (int, error) {
	if fd := d.Kept(); fd >= 0 {
		return fd, nil
	}
	fd, err := makeDir(d.Private, KeptName, "open."+KeptName, d.step)
	if err != nil {
		return -1, err
	}
	held := file.Held(fd)
	defer held.Close()
	d.step("open.sync")
	if err := file.Flush(d.Private); err != nil {
		return -1, err
	}
	at, err := placeOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, err
	}
	d.keeping.Lock()
	defer d.keeping.Unlock()
	if d.kept < 0 { // else the other caller was first
		d.kept, d.keptAt = held.Give(), at
	}
	return d.kept, nil
}

// keptPlace returns the place of the directory of kept volumes; ok is false if there is none.
func (d *Dir) keptPlace() (at place, ok bool) {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	return d.keptAt, d.kept >= 0
}
