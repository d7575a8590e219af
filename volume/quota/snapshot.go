package quota

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl numbers of include/uapi/linux/btrfs.h, the same on amd64 and arm64.
const (
	btrfsSnapCreate = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	btrfsRootRefs   = 0xd000943d // BTRFS_IOC_GET_SUBVOL_ROOTREF
	btrfsLookupUser = 0xd000943e // BTRFS_IOC_INO_LOOKUP_USER
)

// A Snapshotter is an Enforcer of a filesystem that copies a directory of Make in one step.
type Snapshotter interface {
	// Snapshot makes the directory name in parent as a copy of the directory that source has open,
	// with its owner, mode and attributes, and writable. It is what a power cut at one moment of the
	// call would have left of the source, and has all of a source that no process uses; of a
	// subvolume in the source it has an empty directory in place, see Nested. The caller has checked
	// that IsSubvolume holds for the source, which is on the filesystem of parent. The copy has no
	// quota: SetSnapshot follows before a tenant reaches it.
	Snapshot(source, parent int, name string) error
	// SetSnapshot is the first Set of a directory that Snapshot made. What the copy shares with its
	// source does not count for it.
	SetSnapshot(dir int, want Limit) (id uint64, err error)
}

// volArgs2 is struct btrfs_ioctl_vol_args_v2: 4096 bytes.
type volArgs2 struct {
	FD, Transaction, Flags uint64
	Size, Inherit          uint64
	_                      [2]uint64
	Name                   [4040]byte
}

// snapshot makes a writable snapshot of the subvolume whose root directory source has open.
func snapshot(source, parent int, name string) error {
	a := volArgs2{FD: uint64(source)}
	if len(name) >= len(a.Name) {
		return unix.ENAMETOOLONG
	}
	copy(a.Name[:], name)
	return ioctl(parent, btrfsSnapCreate, unsafe.Pointer(&a))
}

func (s squota) Snapshot(source, parent int, name string) error {
	groups, err := groupsDir(parent)
	if err != nil {
		return err
	}
	for range makeTries {
		entries, err := os.ReadDir(groups)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // which means that quotas were turned off
			return fmt.Errorf("list the qgroups: %w", err)
		}
		before := map[string]bool{}
		for _, e := range entries {
			before[e.Name()] = true
		}
		s.step("snapshot")
		if err := snapshot(source, parent, name); err != nil {
			return err
		}
		// Unlike a new subvolume, a snapshot may have blocks of its own at once: the kernel removes
		// files from it that are open in the source and have no name any more.
		used, err := inherited(parent, name, before)
		if !used || err != nil {
			return err
		}
		s.step("unmake")
		if err := subvolume(parent, btrfsSnapDestroy, name); err != nil {
			return err
		}
	}
	return errInherited
}

func (s squota) SetSnapshot(dir int, want Limit) (uint64, error) {
	return s.set(dir, 0, want, func(int) error { return nil })
}

// Nested returns the path of a subvolume in the one whose root directory fd has open, "" if it has
// none. A tenant can create subvolumes, give them any name, and move them meanwhile.
func Nested(fd int) (path string, err error) {
	refs := struct { // struct btrfs_ioctl_get_subvol_rootref_args: 4096 bytes
		MinTree uint64
		Refs    [255]struct{ Tree, Dir uint64 }
		Items   uint8
		_       [7]byte
	}{}
	err = ioctl(fd, btrfsRootRefs, unsafe.Pointer(&refs))
	if err != nil && !errors.Is(err, unix.EOVERFLOW) { // which means more than 255
		return "", fmt.Errorf("find the subvolumes in it: %w", err)
	}
	if refs.Items == 0 {
		return "", nil
	}
	at := struct { // struct btrfs_ioctl_ino_lookup_user_args: 4096 bytes
		Dir, Tree uint64
		Name      [256]byte
		Path      [3824]byte
	}{Dir: refs.Refs[0].Dir, Tree: refs.Refs[0].Tree}
	if err := ioctl(fd, btrfsLookupUser, unsafe.Pointer(&at)); err != nil { // it was moved or removed meanwhile
		return fmt.Sprintf("with the ID %d", at.Tree), nil
	}
	name, _, _ := bytes.Cut(at.Name[:], []byte{0})
	dir, _, _ := bytes.Cut(at.Path[:], []byte{0})
	return string(dir) + string(name), nil
}
