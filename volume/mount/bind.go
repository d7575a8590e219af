package mount

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// targetMode is that of the directories we make to mount on.
const targetMode = 0o750

// Bind mounts the open directory dir at the target with the flags, and makes
// the target's directory where it is not there. It does nothing where dir is
// mounted there as the flags want it. The mount appears with all its
// properties: there is no moment at which a readonly one can be written to.
//
// The error is ErrOther where something else is mounted at the target, or the
// same with other flags. With an error nothing was mounted, and a directory
// that was made is removed again. The caller keeps others from the target.
func (t *Target) Bind(dir *os.File, flags Flags) error {
	at, err := t.Look()
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

// bind attaches a copy of the mount that dir is reached through, cut down to
// dir: see open_tree(2), mount_setattr(2), move_mount(2).
func (t *Target) bind(dir *os.File, flags Flags) error {
	on, err := t.open()
	if err != nil {
		return err
	}
	defer on.Close()
	tree, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	// Closing it drops a mount that was not attached.
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

// maxLayers bounds how many mounts lie on one target. More than one is a
// mistake, and a hundred are not ours.
const maxLayers = 100

// Unbind unmounts what is at the target, layer by layer, as long as ours says
// that it is what the caller wants gone; then it looks again, and removes the
// directory by a plain rmdir. Nothing in it is ever removed. It does nothing
// where there is no target.
//
// The error is ErrOther where ours said no, and where the directory is not
// empty. The caller keeps others from the target.
func (t *Target) Unbind(ours func(Info) bool) error {
	for range maxLayers {
		at, err := t.Look()
		switch {
		case err != nil || !at.There:
			return err
		case !at.Mounted:
			return t.remove()
		case !ours(at.Info):
			return fmt.Errorf("%w: %s of %s is mounted at %q", ErrOther, at.Info.Root, at.Info.Source, t.Path)
		}
		// The last element is not followed, should it be a link by now.
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
