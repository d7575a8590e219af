package pooldir

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// take locks the pool against other processes, and against another Pool of this process.
func (o *Opener) take(d *Dir) error {
	o.config.Step("open.lock")
	// Not opened for writing: that would prevent an administrator from remounting the disk
	// read-only.
	fd, err := tree.Open(d.Private, lockName, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return fault.Path("open", lockName, err)
	}
	d.lock = fd
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return o.held(d)
	} else if err != nil {
		return fault.Path("lock", lockName, err)
	}
	o.config.Step("open.mode")
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return fault.Path("chmod", lockName, err)
	}
	return o.sign(d.Private)
}

// held is the error of a locked pool. Another path of this process may lead to the same directory:
// that is no other process, which would serve the pool.
func (o *Opener) held(d *Dir) error {
	at, err := placeOf(d.Base, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	if twin := o.config.Twin(func(other *Opener) bool { return other.isOpenAt(at) }); twin != "" {
		return fmt.Errorf("%w: its directory is that of %s too, by a link or a mount; "+
			"leave one of the two out of the configuration", fault.ErrNotReady, twin)
	}
	return &fault.HeldError{By: holder(d.Private)}
}

// sign writes who holds the pool, for the error of another process. A full disk keeps nothing: the pool
// has to be open for a deletion to free its space.
func (o *Opener) sign(private int) error {
	o.config.Step("open.sign")
	fd, err := tree.Open(private, lockName, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW)
	if err != nil {
		return fault.Path("open", lockName, err)
	}
	f := os.NewFile(uintptr(fd), lockName)
	_, err = fmt.Fprintf(f, "%s, pid %d, since %s\n", cmp.Or(o.config.Holder, "a process"), os.Getpid(),
		time.Now().UTC().Format(time.RFC3339))
	if err = errors.Join(err, f.Close()); fault.IsFull(err) {
		return nil
	}
	return err
}

const noHolder = "another process"

// holder returns the description that the holder wrote into the lock.
func holder(private int) string {
	data, err := file.Read(private, lockName)
	if text := strings.TrimSpace(string(data)); err == nil && text != "" {
		return text
	}
	return noHolder
}

// Holder returns the description of the last holder of the lock, or "" if that cannot be read.
func (d *Dir) Holder() string {
	if text := holder(d.Private); text != noHolder {
		return text
	}
	return ""
}

// Held reports whether a process of this PID namespace holds the lock. It reads the kernel's list,
// because taking the lock could make the attempt of the owner fail; see proc_locks(5).
func (d *Dir) Held() bool {
	lock, err := placeOf(d.Private, lockName, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return false
	}
	home, ok, err := mount.Find(int(lock.mount))
	if err != nil || !ok {
		return false
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer f.Close()
	return flocked(f, fmt.Sprintf("%02x:%02x:%d", home.Major, home.Minor, lock.inode))
}

// flocked reports whether a file is in lines such as
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:131090 0 EOF
func flocked(r io.Reader, file string) bool {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == file {
			return true
		}
	}
	return false
}
