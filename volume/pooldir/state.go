package pooldir

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// ErrReadOnly marks an ErrNotReady of a pool that can be read.
var ErrReadOnly = errors.New("its filesystem is read-only")

// Writable returns an ErrNotReady if the filesystem has become read-only.
func (d *Dir) Writable() error {
	st, err := d.Statfs()
	if err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%w: %w", fault.ErrNotReady, ErrReadOnly)
	}
	return nil
}

// whole returns an ErrNotReady if a directory of the agent is not the one that was opened: data
// that is written there would be lost. The pool must not be reopened then, because that would
// create an empty directory in its place.
func (d *Dir) whole() error {
	names, places := ownDirs[:], d.own[:]
	if at, ok := d.keptPlace(); ok {
		names, places = append(slices.Clone(names), KeptName), append(slices.Clone(places), at)
	}
	for i, name := range names {
		is, err := placeOf(d.Private, name, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return asNotReady(err)
		}
		if err != nil || is != places[i] {
			return fmt.Errorf("%w: %s/%s was removed or replaced while this process used it: restore it, or restart the agent, "+
				"which adopts again what PVs name", fault.ErrNotReady, PrivateName, name)
		}
	}
	return nil
}

// aliveFor is for how long alive takes the filesystem to write after it looked. Every deletion
// asks, and a look costs as much as there are mounts: 1 ms with 425. What is written to a filesystem
// that stopped meanwhile fails by itself.
const aliveFor = time.Second

// alive returns an ErrNotReady if the filesystem has stopped writing; see CheckWrites. It may notice
// that aliveFor late. That the filesystem writes again it notices at once.
func (d *Dir) alive() error {
	if at := d.seenAlive.Load(); at != nil && time.Since(*at) < aliveFor {
		return nil
	}
	now := time.Now()
	home, ok, err := mount.Find(d.MountID())
	if err != nil || !ok {
		return err
	}
	if err := CheckWrites(home); err != nil {
		return err
	}
	d.seenAlive.Store(&now)
	return nil
}

// CheckWrites returns an ErrNotReady if the filesystem of the pool's mount has stopped writing
// after an error. statfs(2) does not show that, but the options of the filesystem do: ext4 shows
// "ro" or, since Linux 6.15, "emergency_ro", and "shutdown" (fs/ext4/super.c).
func CheckWrites(home mount.Info) error {
	for _, option := range []string{"ro", "emergency_ro", "shutdown"} {
		if home.SuperOption(option) {
			return fmt.Errorf("%w: %w (%s): it met an error and writes no more; "+
				"the kernel's log has the error, and fsck repairs it", fault.ErrNotReady, ErrReadOnly, option)
		}
	}
	return nil
}

// Explain turns EROFS into an ErrNotReady if the pool's filesystem is read-only. If only the btrfs
// subvolume of a volume is read-only, Explain returns the error as it is.
func (d *Dir) Explain(err error) error {
	if !errors.Is(err, unix.EROFS) || errors.Is(err, fault.ErrNotReady) || d.Writable() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrNotReady, err)
}
