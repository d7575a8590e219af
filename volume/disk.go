package volume

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
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
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, fault.Path("look at", name, err)
}

// exists reports whether dir has the name, whatever it is.
func exists(dir int, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil, fault.Path("look at", name, err)
}

// list returns the names in dir, in no order.
func list(dir int, name string) ([]string, error) {
	fd, err := tree.OpenDir(dir, name)
	if err != nil {
		return nil, fault.Path("open", name, err)
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
		return nil, fault.Path("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// file is a file to be written.
type file struct {
	name string
	data []byte
}

// newFile makes a file and flushes it and what is beside it, such as dir, all at
// the same time: what waits for the disk together waits once. A crash before it
// returned leaves the file whole, empty or not at all. The error is fs.ErrExist
// where something has the name; with another one there is no file.
func newFile(dir int, f file, step func(string), beside ...int) error {
	step("new")
	made, err := makeFile(dir, f)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		step("flush")
		err = errors.Join(flush(append(beside, int(made.Fd()))...), made.Close())
	}
	if err != nil {
		step("discard")
		_ = unix.Unlinkat(dir, f.name, 0)
	}
	return err
}

// writeFiles puts files in place such that after a crash each is there whole, or
// as it was before: temporary files, flushed, renamed, directory flushed. What is
// beside them is flushed with the temporary files.
func writeFiles(dir int, files []file, step func(string), beside ...int) error {
	temps := make([]file, len(files))
	for i, f := range files {
		temps[i] = file{tempPrefix + rand.Text()[:10], f.data}
	}
	step("write")
	err := writeTemps(dir, temps, beside)
	for i, f := range files {
		if err == nil {
			step("rename")
			err = fault.Path("rename", f.name, unix.Renameat(dir, temps[i].name, dir, f.name))
		}
	}
	if err != nil {
		step("discard")
		for _, t := range temps {
			_ = unix.Unlinkat(dir, t.name, 0) // those that were renamed are not there any more
		}
		return err
	}
	step("sync")
	return flush(dir)
}

func writeTemps(dir int, files []file, beside []int) error {
	for _, f := range files {
		made, err := makeFile(dir, f)
		if err != nil {
			return err
		}
		defer made.Close()
		beside = append(beside, int(made.Fd()))
	}
	return flush(beside...)
}

// makeFile makes a file where none is. One that could not be written whole is
// there nevertheless. The caller closes it where there is no error.
func makeFile(dir int, f file) (*os.File, error) {
	fd, err := tree.Open(dir, f.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fault.Path("create", f.name, err)
	}
	made := os.NewFile(uintptr(fd), f.name)
	if _, err = made.Write(f.data); err == nil {
		err = made.Chmod(0o600) // openat2(2) gave it no mode at all
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// flush flushes files, and directories: what was renamed into or out of them
// stays so. All go at the same time, so that a journal has them in one commit.
func flush(fds ...int) error {
	errs := make([]error, len(fds))
	var wait sync.WaitGroup
	for i, fd := range fds {
		wait.Go(func() { errs[i] = fault.Path("flush", "file or directory", unix.Fsync(fd)) })
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
	return fault.Path("remove", name, err)
}

// remove removes a file; one that is not there is a success.
func remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.ENOENT {
		return nil
	}
	return fault.Path("remove", name, err)
}

// temporary reports whether a crash may have left the file.
func temporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }
