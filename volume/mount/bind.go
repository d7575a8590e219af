package mount

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const targetMode = 0o750

// Bind mounts the open directory dir at the target with the flags. It creates the target's
// directory if it is missing, and does nothing if dir is mounted there with these flags. The mount
// appears with all its properties: a readonly mount is never writable.
//
// The error is ErrOther if another directory is mounted at the target, or dir with other flags.
// With an error nothing is mounted, and Bind removes the directory that it created. The caller
// makes sure that no other call uses the target.
func (t *Target) Bind(dir *os.File, flags Flags) error {
	at, err := t.Inspect()
	if err != nil {
		return err
	}
	if at.Mounted {
		return at.already(t.Path, dir, flags)
	}
	if !at.There {
		if err := unix.Mkdirat(t.parent, t.name, targetMode); err != nil {
			return fmt.Errorf("create %q: %w", t.Path, err)
		}
	}
	if err := t.bind(dir, flags); err != nil {
		if !at.There {
			_ = unix.Unlinkat(t.parent, t.name, unix.AT_REMOVEDIR)
		}
		return fmt.Errorf("mount at %q: %w", t.Path, err)
	}
	return nil
}

func (a At) already(path string, dir *os.File, flags Flags) error {
	same, err := a.Is(dir)
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%w: %s of %s is mounted at %q", ErrOther, a.Info.Root, a.Info.Source, path)
	}
	if why := flags.Differ(a.Info); why != "" {
		return fmt.Errorf("%w: the volume is mounted at %q already, and %s", ErrOther, path, why)
	}
	return nil
}

// bind attaches a copy of the mount of dir, reduced to dir; see open_tree(2), mount_setattr(2) and
// move_mount(2). It is our own because k8s.io/mount-utils starts mount(8) twice, and between the
// two a readonly mount is writable.
func (t *Target) bind(dir *os.File, flags Flags) error {
	on, err := t.Open()
	if err != nil {
		return err
	}
	defer on.Close()
	tree, err := openCopy(dir)
	if err != nil {
		return err
	}
	// Close removes a mount that was not attached.
	defer unix.Close(tree)
	if flags.set != 0 || flags.clear != 0 {
		attr := unix.MountAttr{Attr_set: flags.set, Attr_clr: flags.clear}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return fmt.Errorf("mount_setattr: %w", err)
		}
	}
	err = unix.MoveMount(tree, "", int(on.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// maxLayers bounds how many mounts Unbind removes from one target. More than one is a mistake.
const maxLayers = 100

// Unbind unmounts one mount after the other from the target, as long as own returns true for it.
// Then it checks that none is left, and removes the directory with rmdir(2). It removes nothing in
// the directory. It does nothing if there is no target.
//
// The error is ErrOther if own returned false, or if the directory is not empty. The caller makes
// sure that no other call uses the target.
func (t *Target) Unbind(own func(Info) bool) error {
	for range maxLayers {
		at, err := t.Inspect()
		switch {
		case err != nil || !at.There:
			return err
		case !at.Mounted:
			return t.remove()
		case !own(at.Info):
			return fmt.Errorf("%w: %s of %s is mounted at %q", ErrOther, at.Info.Root, at.Info.Source, t.Path)
		}
		// UMOUNT_NOFOLLOW: the last element may have become a link.
		if err := unix.Unmount(procPath(t.parent)+"/"+t.name, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %q: %w", t.Path, err)
		}
	}
	return fmt.Errorf("%w: more than %d mounts lie on %q", ErrOther, maxLayers, t.Path)
}

func (t *Target) remove() error {
	err := unix.Unlinkat(t.parent, t.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTEMPTY):
		return fmt.Errorf("%w: nothing is mounted at %q, and it is not empty; check what is in it", ErrOther, t.Path)
	}
	return fmt.Errorf("remove %q: %w", t.Path, err)
}
