package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// dir is the open directory of a pool: everything on disk is reached through it.
type dir struct {
	base, private, records, staging, trash int // directories, open for reading
	lock                                   int // holds the flock

	id identity
	// filesystem is where the pool lies; see filesystemOf.
	filesystem string

	label           string // of new volumes; "" where none is set
	labelIfPossible bool   // a filesystem that takes no label is no error
	step            func(name string)

	at place // the base when it was opened
	in place // the private directory, likewise
	on place // pool.json, likewise
	// own are the directories of ownDirs, likewise.
	own [len(ownDirs)]place

	// live ends when the directory is about to be closed: long work stops then.
	live context.Context
	end  context.CancelFunc
}

// place tells one directory of this moment from every other: the inode, and
// the mount it is reached through. That of a file also has when it was written,
// so that one that is written anew in place is another.
type place struct {
	major, minor uint32
	inode, mount uint64
	written      unix.StatxTimestamp
}

func placeOf(dir int, name string, flags int) (place, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, flags, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID|unix.STATX_MTIME, &st); err != nil {
		return place{}, fault.Path("look at", name, err)
	}
	p := place{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino, mount: st.Mnt_id}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		p.written = st.Mtime
	}
	return p, nil
}

func newDir() *dir {
	d := &dir{base: -1, private: -1, records: -1, staging: -1, trash: -1, lock: -1}
	d.live, d.end = context.WithCancel(context.Background())
	return d
}

// close gives up the lock and every descriptor. It changes nothing on disk.
func (d *dir) close() {
	d.end()
	if d.lock >= 0 {
		// Said aloud: a child process that is just being started shares the
		// descriptor until its exec, and closing ours alone would not unlock.
		_ = unix.Flock(d.lock, unix.LOCK_UN)
	}
	for _, fd := range []*int{&d.lock, &d.trash, &d.staging, &d.records, &d.private, &d.base} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// openBase opens the pool's directory. It returns -1 where there is none.
func openBase(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return -1, nil
	}
	return fd, fault.Path("open", path, err)
}

// openPrivate opens the private directory. It returns -1 where there is none.
func openPrivate(base int) (int, error) {
	return openDir(base, privateName)
}

// openDir opens a directory of ours. It returns -1 where there is none.
func openDir(parent int, name string) (int, error) {
	fd, err := tree.OpenDir(parent, name)
	if err == unix.ENOENT {
		return -1, nil
	}
	return fd, fault.Path("open", name, err)
}

// checkBase refuses a directory whose children take over its project ID:
// nothing could be renamed into it from staging, or out of it to the trash
// (xfs_rename in fs/xfs, ext4_rename in fs/ext4, which answer EXDEV).
func checkBase(base int) error {
	attr, err := quota.GetAttr(base)
	if err == nil && attr.Flags&quota.ProjectInherit != 0 {
		return fmt.Errorf("%w: the directory hands its project ID down to its children: take the flag away (chattr -P)", ErrInvalid)
	}
	return nil // a filesystem that does not know the flag does not set it
}

// ownDirs are the directories in the private one.
var ownDirs = [...]string{recordsName, stagingName, trashName}

// locate notes where everything is, for verify and whole.
func (d *dir) locate() error {
	errs := make([]error, 3+len(ownDirs))
	d.at, errs[0] = placeOf(d.base, "", unix.AT_EMPTY_PATH)
	d.in, errs[1] = placeOf(d.private, "", unix.AT_EMPTY_PATH)
	d.on, errs[2] = placeOf(d.private, identityName, unix.AT_SYMLINK_NOFOLLOW)
	for i, fd := range [...]int{d.records, d.staging, d.trash} {
		d.own[i], errs[3+i] = placeOf(fd, "", unix.AT_EMPTY_PATH)
	}
	return errors.Join(errs...)
}

// verify looks whether path still leads to the open pool: the same directory
// through the same mount, the same private directory and identity in it.
func (d *dir) verify(path string) error {
	at, err := placeOf(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	in, err := placeOf(d.base, privateName, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	on, err := placeOf(d.private, identityName, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	if at != d.at || in != d.in || on != d.on {
		return errors.New("the path leads to another directory than before")
	}
	return nil
}

// errReadOnly marks an ErrNotReady: what is there can be read.
var errReadOnly = errors.New("its filesystem is read-only")

// writable returns ErrNotReady on a filesystem that turned read-only.
func (d *dir) writable() error {
	st, err := d.statfs()
	if err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%w: %w", ErrNotReady, errReadOnly)
	}
	return nil
}

// whole returns ErrNotReady where a directory of ours is not the one that was
// opened: nobody would find what is written there. It is no reason to open the
// pool anew, which would make an empty one in its place.
func (d *dir) whole() error {
	for i, name := range ownDirs {
		is, err := placeOf(d.private, name, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return asNotReady(err)
		}
		if err != nil || is != d.own[i] {
			return fmt.Errorf("%w: %s/%s was removed or replaced under this process: bring it back, or restart the agent, "+
				"which adopts again what PVs name", ErrNotReady, privateName, name)
		}
	}
	return nil
}

// alive returns ErrNotReady on a filesystem that met an error and writes no
// more; see writes.
func (d *dir) alive() error {
	all, err := mount.Self()
	if err != nil {
		return err
	}
	if home, ok := mount.ByID(all, int(d.at.mount)); ok {
		return writes(home)
	}
	return nil
}

// writes returns ErrNotReady where the pool's mount is of a filesystem that
// met an error. statfs(2) does not tell; the filesystem's options do: ext4
// shows "ro" or, since Linux 6.15, "emergency_ro", and "shutdown"
// (fs/ext4/super.c).
func writes(home mount.Info) error {
	for _, option := range []string{"ro", "emergency_ro", "shutdown"} {
		if home.SuperOption(option) {
			return fmt.Errorf("%w: %w (%s): it met an error and writes no more; the kernel's log has the error, and fsck mends it",
				ErrNotReady, errReadOnly, option)
		}
	}
	return nil
}

// judge makes EROFS an ErrNotReady if the pool's filesystem is read-only. If only
// a btrfs subvolume is, that of a volume, judge leaves the error as it is.
func (d *dir) judge(err error) error {
	if !errors.Is(err, unix.EROFS) || errors.Is(err, ErrNotReady) || d.writable() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

func (d *dir) statfs() (*unix.Statfs_t, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(d.base, &st)
	return &st, fault.Path("statfs", "pool", err)
}

// realPath is the path of the open directory, without links, as mountinfo
// writes it.
func (d *dir) realPath() (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(d.base))
}

// makeDir makes a directory for us alone where there is none, and opens it.
func (o *opener) makeDir(parent int, name, step string) (int, error) {
	o.config.Step(step)
	made := unix.Mkdirat(parent, name, 0o700)
	if made != nil && made != unix.EEXIST {
		return -1, fault.Path("create", name, made)
	}
	fd, err := tree.OpenDir(parent, name)
	if err != nil {
		return -1, fault.Path("open", name, err)
	}
	if made == nil {
		o.config.Step("open.mode")
		// Whatever the umask took, and the parent's setgid bit gave.
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fault.Path("chmod", name, err)
	}
	return fd, nil
}

// makeBase makes the pool's own directory, for us alone, and opens it. Its
// parent is there, or Check had refused it.
func (o *opener) makeBase(path string) (int, error) {
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fault.Path("open", filepath.Dir(path), err)
	}
	defer unix.Close(parent)
	fd, err := o.makeDir(parent, filepath.Base(path), "open.base")
	if err != nil {
		return -1, err
	}
	o.config.Step("open.above")
	if err := file.Flush(parent); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// looseMode warns of a directory that lets others in: they would reach every
// volume whose own mode lets them.
func looseMode(base int, path string) []string {
	var st unix.Stat_t
	if err := unix.Fstat(base, &st); err != nil || st.Mode&0o007 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the node's other users can enter %s (mode %04o): chmod 0700 %s",
		path, st.Mode&0o7777, path)}
}

// filesystemOf names the filesystem of a mount. It is asked of mountinfo and
// not of stat, because every subvolume of a btrfs has a st_dev of its own.
func filesystemOf(mountID uint64) (string, error) {
	all, err := mount.Self()
	if err != nil {
		return "", err
	}
	i, ok := mount.ByID(all, int(mountID))
	if !ok {
		return "", fmt.Errorf("%w: its mount is not in /proc/self/mountinfo any more", ErrNotReady)
	}
	return fmt.Sprintf("%d:%d", i.Major, i.Minor), nil
}
