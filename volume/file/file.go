package file

import (
	"crypto/rand"
	"encoding/json"
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

// tempPrefix begins the names of files that are not yet renamed into place. No
// record begins with a dot.
const tempPrefix = ".new-"

// MaxBytes bounds what Read returns, in bytes.
const MaxBytes = 1 << 20

// IsDir reports whether name in dir is a directory, not a link to one.
func IsDir(dir int, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, fault.Path("stat", name, err)
}

// Exists reports whether dir has the name, whatever it is.
func Exists(dir int, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil, fault.Path("stat", name, err)
}

// IsEmpty reports whether nothing is in the directory name of dir, or whether
// that is no directory, or cannot be read.
func IsEmpty(dir int, name string) bool {
	fd, err := tree.OpenDir(dir, name)
	if err != nil {
		return true
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	some, _ := f.Readdirnames(1)
	return len(some) == 0
}

// List returns the names in dir, in no order.
func List(dir int, name string) ([]string, error) {
	fd, err := tree.OpenDir(dir, name)
	if err != nil {
		return nil, fault.Path("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// Read reads the regular file name in dir.
func Read(dir int, name string) ([]byte, error) {
	// O_NONBLOCK: a pipe under this name must not stop us.
	fd, err := tree.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, fault.Path("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes))
}

// Content is a file to be written.
type Content struct {
	Name string
	Data []byte
}

// Create makes a file and flushes it and what is beside it, such as dir, all at
// the same time: what waits for the disk together waits once. A crash before it
// returned leaves the file whole, empty or not at all. The error is fs.ErrExist
// where something has the name; with another one there is no file.
func Create(dir int, f Content, step func(string), beside ...int) error {
	step("new")
	made, err := makeFile(dir, f)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		step("flush")
		err = errors.Join(Flush(append(beside, int(made.Fd()))...), made.Close())
	}
	if err != nil {
		step("discard")
		_ = unix.Unlinkat(dir, f.Name, 0)
	}
	return err
}

// Replace puts files in place such that after a crash each is there whole, or
// as it was before: temporary files, flushed, renamed, directory flushed. What is
// beside them is flushed with the temporary files.
func Replace(dir int, files []Content, step func(string), beside ...int) error {
	temps := make([]Content, len(files))
	for i, f := range files {
		temps[i] = Content{tempPrefix + rand.Text()[:10], f.Data}
	}
	step("write")
	err := writeTemps(dir, temps, beside)
	for i, f := range files {
		if err == nil {
			step("rename")
			err = fault.Path("rename", f.Name, unix.Renameat(dir, temps[i].Name, dir, f.Name))
		}
	}
	if err != nil {
		step("discard")
		for _, t := range temps {
			_ = unix.Unlinkat(dir, t.Name, 0) // those that were renamed are not there any more
		}
		return err
	}
	step("sync")
	return Flush(dir)
}

func writeTemps(dir int, files []Content, beside []int) error {
	for _, f := range files {
		made, err := makeFile(dir, f)
		if err != nil {
			return err
		}
		defer made.Close()
		beside = append(beside, int(made.Fd()))
	}
	return Flush(beside...)
}

// makeFile makes a file where none is. One that could not be written whole is
// there nevertheless. The caller closes it where there is no error.
func makeFile(dir int, f Content) (*os.File, error) {
	fd, err := tree.Open(dir, f.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fault.Path("create", f.Name, err)
	}
	made := os.NewFile(uintptr(fd), f.Name)
	if _, err = made.Write(f.Data); err == nil {
		err = made.Chmod(0o600) // openat2(2) gave it no mode at all
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// Flush flushes files, and directories: what was renamed into or out of them
// stays so. All go at the same time, so that a journal has them in one commit.
func Flush(fds ...int) error {
	errs := make([]error, len(fds))
	var wait sync.WaitGroup
	for i, fd := range fds {
		wait.Go(func() { errs[i] = fault.Path("flush", "file or directory", unix.Fsync(fd)) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// RemoveDir removes an empty directory; one that is not there is a success.
func RemoveDir(dir int, name string) error {
	err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		return nil
	}
	return fault.Path("remove", name, err)
}

// Remove removes a file; one that is not there is a success.
func Remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.ENOENT {
		return nil
	}
	return fault.Path("remove", name, err)
}

// IsTemporary reports whether a crash may have left the file.
func IsTemporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// JSON is the form of every file in the private directory.
func JSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}
