package volume

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"crypto/rand"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// The pool's private directory and what is in it; see the package comment.
const (
	privateName  = ".hostpath-provisioner"
	identityName = "pool.json"
	lockName     = "lock"
	recordsName  = "records"
	stagingName  = "staging"
	trashName    = "trash"
)

// tempPrefix begins the names of files that are not yet renamed into place. No
// record begins with a dot.
const tempPrefix = ".new-"

// maxFile bounds what is read of a record or an identity, in bytes.
const maxFile = 1 << 20

// isDir reports whether name in dir is a directory, not a link to one.
func isDir(dir int, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, pathError("look at", name, err)
}

// exists reports whether dir has the name, whatever it is.
func exists(dir int, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil, pathError("look at", name, err)
}

// list returns the names in dir, in no order.
func list(dir int, name string) ([]string, error) {
	fd, err := tree.OpenDir(dir, name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// readFile reads the regular file name in dir.
func readFile(dir int, name string) ([]byte, error) {
	// O_NONBLOCK: a pipe under this name must not stop us.
	fd, err := tree.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// writeFile puts a file in place such that after a crash it is there whole,
// or as it was before: temporary file, flushed, renamed, directory flushed. What
// is beside it is flushed with the temporary file: what waits for the disk
// together waits once.
func writeFile(dir int, name string, data []byte, step func(string), beside ...int) error {
	temp := tempPrefix + rand.Text()[:10]
	step("write")
	err := writeTemp(dir, temp, data, beside)
	if err == nil {
		step("rename")
		err = pathError("rename", name, unix.Renameat(dir, temp, dir, name))
	}
	if err != nil {
		step("discard")
		_ = unix.Unlinkat(dir, temp, 0)
		return err
	}
	step("sync")
	return flush(dir)
}

func writeTemp(dir int, name string, data []byte, beside []int) error {
	fd, err := tree.Open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return pathError("create", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(0o600), flush(append(beside, fd)...), f.Close())
}

// flush flushes files, and directories: what was renamed into or out of them
// stays so. All go at the same time, so that a journal has them in one commit.
func flush(fds ...int) error {
	errs := make([]error, len(fds))
	var wait sync.WaitGroup
	for i, fd := range fds {
		wait.Go(func() { errs[i] = pathError("flush", "file or directory", unix.Fsync(fd)) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// rmdir removes an empty directory; one that is not there is a success.
func rmdir(dir int, name string) error {
	err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		return nil
	}
	return pathError("remove", name, err)
}

// remove removes a file; one that is not there is a success.
func remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.ENOENT {
		return nil
	}
	return pathError("remove", name, err)
}

// temporary reports whether a crash may have left the file.
func temporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// pathError adds to an error of the operating system what it was about.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
