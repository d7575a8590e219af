package power

import (
	"errors"
	"fmt"
	"os/exec"
)

// A Filesystem is one on which pools work.
type Filesystem struct {
	Name    string
	Kernel  string // its name for mount(2)
	Options string // of the mount
	Quota   bool   // volumes of btrfs are subvolumes with a quota
	// Unordered is a filesystem without a journal, on which e2fsck runs before a mount. A journal
	// keeps the order of what nothing flushed, and so hides that it was not. Without one a rename
	// is not atomic, so its power goes only while no call is under way.
	Unordered bool

	size int64 // of its disk, in bytes
	mkfs []string
}

const mib = int64(1) << 20

// Filesystems are those that a pool is supported on, and one to find flushes that a journal makes
// up for. An inode fills a block there, so that no inode is flushed with its neighbour.
var Filesystems = []Filesystem{
	{Name: "ext4", Kernel: "ext4", size: 64 * mib,
		mkfs: []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"}},
	{Name: "xfs", Kernel: "xfs", size: 300 * mib, mkfs: []string{"mkfs.xfs", "-q", "-f"}},
	{Name: "btrfs", Kernel: "btrfs", size: 256 * mib, mkfs: []string{"mkfs.btrfs", "-q", "-f"}},
	{Name: "btrfs-quota", Kernel: "btrfs", Quota: true, size: 256 * mib, mkfs: []string{"mkfs.btrfs", "-q", "-f"}},
	{Name: "ext4-unordered", Kernel: "ext4", Unordered: true, size: 64 * mib,
		mkfs: []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-I", "4096", "-N", "1024", "-O", "^has_journal", "-E",
			"lazy_itable_init=0"}},
}

// NewDisk returns a disk with the filesystem. The caller closes it.
func (f Filesystem) NewDisk() (*Disk, error) {
	d, err := NewDisk(f.size)
	if err != nil {
		return nil, err
	}
	mkfs := exec.Command(f.mkfs[0], append(f.mkfs[1:], d.Path)...)
	if out, err := mkfs.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w\n%s", mkfs.Args, err, out), d.Close())
	}
	if err := d.forget(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.Keep()
	return d, nil
}

// repair does what a boot does before the mount of a filesystem without a journal.
func (f Filesystem) repair(d *Disk) error {
	if !f.Unordered {
		return nil
	}
	fsck := exec.Command("e2fsck", "-fy", d.Path)
	out, err := fsck.CombinedOutput()
	// errors were corrected; see e2fsck(8)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", fsck.Args, err, out)
	}
	return d.forget()
}
