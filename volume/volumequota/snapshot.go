package volumequota

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Snapshots reports whether a volume can be made as a snapshot of the directory with that inode number
// on the same filesystem.
func (d *Dir) Snapshots(inode uint64) bool {
	return d.subvolumes && quota.IsSubvolume(inode)
}

// Snapshot makes the directory of a new volume in staging, under that name there, as a snapshot of the
// directory that source has open; see quota.Snapshotter. SetSnapshot follows. The error is ErrNotReady
// if the pool was opened again since Snapshots, and its filesystem has no snapshots.
func (d *Dir) Snapshot(source int, name string) error {
	s, ok := d.enforcer.(quota.Snapshotter)
	if !ok {
		return fmt.Errorf("%w: its filesystem has no snapshots any more", fault.ErrNotReady)
	}
	return s.Snapshot(source, d.dir.Staging, name)
}

// SetSnapshot is Set for a new volume that Snapshot made. It does nothing for any other.
func (d *Dir) SetSnapshot(dir int, r record.Record) (id uint64, err error) {
	want, wants := d.wanted(r)
	s, ok := d.enforcer.(quota.Snapshotter)
	if !wants || !ok {
		return 0, nil
	}
	id, err = s.SetSnapshot(dir, want)
	return isSet(r, id, err)
}
