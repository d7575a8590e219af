package pooldir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// The pool's private directory and what is in it; see the comment of package volume.
const (
	PrivateName  = ".hostpath-provisioner"
	identityName = "pool.json"
	lockName     = "lock"
	pathsName    = "paths.json"
	RecordsName  = "records"
	StagingName  = "staging"
	TrashName    = "trash"
	KeptName     = "kept"
)

// Dir is the open directory of a pool. Everything on disk is accessed through it.
type Dir struct {
	Base, Private, Records, Staging, Trash int // directories, open for reading
	lock                                   int // holds the flock

	ID Identity
	// Filesystem is the filesystem of the pool; see filesystemOf.
	Filesystem string

	label           string // of new volumes; "" sets none
	labelIfPossible bool   // a filesystem without labels is no error
	step            func(name string)

	at place // the base when it was opened
	in place // the private directory, when it was opened
	on place // pool.json, when it was opened
	// own has the directories of ownDirs, as they were opened.
	own [len(ownDirs)]place

	seenAlive atomic.Pointer[time.Time] // when alive saw the filesystem write; nil before

	keeping sync.Mutex // guards kept and keptAt
	kept    int        // -1 until MakeKept
	keptAt  place

	// live ends before the directory is closed; long work stops then.
	live context.Context //nolint:containedctx // its end is what closes the directory
	end  context.CancelFunc
}

// place identifies a directory among those that exist at one moment: its inode and its mount. The
// place of a file also has the time of the last write, so that a rewritten file has another place.
type place struct {
	major, minor uint32
	inode, mount uint64
	written      unix.StatxTimestamp
}

func placeOf(dir int, name string, flags int) (place, error) {
	var st unix.Statx_t
	const need = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID | unix.STATX_MTIME
	if err := unix.Statx(dir, name, flags, need, &st); err != nil {
		return place{}, fault.Path("stat", name, err)
	}
	p := place{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino, mount: st.Mnt_id}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		p.written = st.Mtime
	}
	return p, nil
}

func newDir() *Dir {
	d := &Dir{Base: -1, Private: -1, Records: -1, Staging: -1, Trash: -1, lock: -1, kept: -1}
	d.live, d.end = context.WithCancel(context.Background())
	return d
}

// Close releases the lock and closes every descriptor. It changes nothing on disk.
func (d *Dir) Close() {
	d.end()
	if d.lock >= 0 {
		// Explicitly: a child process that is just being started shares the descriptor until its
		// exec, and closing ours alone would not unlock.
		_ = unix.Flock(d.lock, unix.LOCK_UN)
	}
	for _, fd := range []*int{&d.lock, &d.kept, &d.Trash, &d.Staging, &d.Records, &d.Private, &d.Base} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// openBase opens the pool's directory. It returns -1 if there is none.
func openBase(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return -1, nil
	}
	return fd, fault.Path("open", path, err)
}

// openDir opens a directory of the agent. It returns -1 if there is none.
func openDir(parent int, name string) (int, error) {
	fd, err := tree.OpenDir(parent, name)
	if err == unix.ENOENT {
		return -1, nil
	}
	return fd, fault.Path("open", name, err)
}

// checkBase refuses a directory whose children inherit its project ID. The kernel would refuse to
// rename volumes from staging into it and out of it into the trash (xfs_rename in fs/xfs and
// ext4_rename in fs/ext4 return EXDEV).
func checkBase(base int) error {
	attr, err := quota.GetAttr(base)
	if err == nil && attr.Flags&quota.ProjectInherit != 0 {
		return fmt.Errorf("%w: its children inherit the project ID of the directory: clear the flag (chattr -P)",
			fault.ErrInvalid)
	}
	return nil // a filesystem without the flag does not set it
}

// ownDirs has the names of the directories in the private one.
var ownDirs = [...]string{RecordsName, StagingName, TrashName}

// locate records the place of each directory, for verify and whole.
func (d *Dir) locate() error {
	errs := make([]error, 4+len(ownDirs))
	d.at, errs[0] = placeOf(d.Base, "", unix.AT_EMPTY_PATH)
	d.in, errs[1] = placeOf(d.Private, "", unix.AT_EMPTY_PATH)
	d.on, errs[2] = placeOf(d.Private, identityName, unix.AT_SYMLINK_NOFOLLOW)
	for i, fd := range [...]int{d.Records, d.Staging, d.Trash} {
		d.own[i], errs[4+i] = placeOf(fd, "", unix.AT_EMPTY_PATH)
	}
	if d.kept >= 0 {
		d.keptAt, errs[3] = placeOf(d.kept, "", unix.AT_EMPTY_PATH)
	}
	return errors.Join(errs...)
}

// verify checks that path still leads to the open pool: the same directory on the same mount, with
// the same private directory and identity.
func (d *Dir) verify(path string) error {
	at, errAt := placeOf(unix.AT_FDCWD, path, 0)
	in, errIn := placeOf(d.Base, PrivateName, unix.AT_SYMLINK_NOFOLLOW)
	on, errOn := placeOf(d.Private, identityName, unix.AT_SYMLINK_NOFOLLOW)
	err := cmp.Or(errAt, errIn, errOn)
	if err == nil && (at != d.at || in != d.in || on != d.on) {
		err = errors.New("the path leads to another directory than before")
	}
	return err
}

// Statfs returns the figures of the filesystem.
func (d *Dir) Statfs() (*unix.Statfs_t, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(d.Base, &st)
	return &st, fault.Path("statfs", "pool", err)
}

// MountID returns the ID of the mount through which the directory was opened.
func (d *Dir) MountID() int { return int(d.at.mount) }

// RealPath returns the path of the open directory without links, as in mountinfo.
func (d *Dir) RealPath() (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(d.Base))
}

// Children returns the names in the pool's own directory, sorted.
func (d *Dir) Children() ([]string, error) {
	names, err := file.List(d.Base, ".")
	slices.Sort(names)
	return names, err
}

// ContainsPool reports whether a child of the pool is a pool of its own.
func (d *Dir) ContainsPool(name string) (bool, error) {
	return file.Exists(d.Base, name+"/"+PrivateName)
}

// makeDir opens a directory. If there is none, it creates one for the agent alone.
func makeDir(parent int, name, what string, step func(string)) (int, error) {
	step(what)
	made := unix.Mkdirat(parent, name, 0o700)
	if made != nil && made != unix.EEXIST {
		return -1, fault.Path("create", name, made)
	}
	fd, err := tree.OpenDir(parent, name)
	if err != nil {
		return -1, fault.Path("open", name, err)
	}
	held := file.Held(fd)
	defer held.Close()
	if made == nil {
		step("open.mode")
		// Independent of the umask, and of the parent's setgid bit.
		if err := unix.Fchmod(fd, 0o700); err != nil {
			return -1, fault.Path("chmod", name, err)
		}
	}
	return held.Give(), nil
}

// makeBase creates the pool's own directory, for the agent alone, and opens it. Check has checked
// that its parent exists.
func (o *Opener) makeBase(path string) (int, error) {
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fault.Path("open", filepath.Dir(path), err)
	}
	defer unix.Close(parent)
	fd, err := makeDir(parent, filepath.Base(path), "open.base", o.config.Step)
	if err != nil {
		return -1, err
	}
	held := file.Held(fd)
	defer held.Close()
	o.config.Step("open.above")
	if err := file.Flush(parent); err != nil {
		return -1, err
	}
	return held.Give(), nil
}

// LooseMode warns of a directory that other users can enter: they can access every volume whose own
// mode permits it.
func LooseMode(base int, path string) []string {
	var st unix.Stat_t
	if err := unix.Fstat(base, &st); err != nil || st.Mode&0o007 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the node's other users can enter %s (mode %04o): chmod 0700 %s",
		path, st.Mode&0o7777, path)}
}

// filesystemOf returns the name of a mount's filesystem. It reads mountinfo and not stat, because
// every subvolume of a btrfs has its own st_dev.
func filesystemOf(mountID uint64) (string, error) {
	i, ok, err := mount.Find(int(mountID))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%w: its mount is not in /proc/self/mountinfo any more", fault.ErrNotReady)
	}
	return fmt.Sprintf("%d:%d", i.Major, i.Minor), nil
}
