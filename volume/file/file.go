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

// tempPrefix begins names of files not renamed into place yet. No record begins with a dot.
const tempPrefix = ".new-"

// MaxBytes bounds what Read returns, in bytes.
const MaxBytes = 1 << 20

// IsDir reports whether name in dir is a directory, not a link to one.
func IsDir(dir int, name string) (bool, error) {
	kind, err := kindOf(dir, name)
	return kind == unix.S_IFDIR, err
}

// Exists reports whether dir has an entry of that name, of any type.
func Exists(dir int, name string) (bool, error) {
	kind, err := kindOf(dir, name)
	return kind != 0, err
}

// kindOf returns the type bits of an entry's mode, 0 if there is none.
func kindOf(dir int, name string) (uint32, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return 0, nil
	}
	return st.Mode & unix.S_IFMT, fault.Path("stat", name, err)
}

// IsEmpty reports whether the directory name in dir has no entries. It returns true, too,
// if name is no directory or cannot be read.
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

// List returns the names in the directory name of dir, in no order.
func List(dir int, name string) ([]string, error) {
	fd, err := tree.OpenDir(dir, name)
	if err != nil {
		return nil, fault.Path("open", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// Read returns the content of the file name in dir, at most MaxBytes.
func Read(dir int, name string) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO of this name would block.
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

// Create creates a file and flushes it together with the descriptors in beside, such as
// dir: flushes that run at the same time share one wait for the disk. After a crash before
// Create returns, the file is whole, empty or absent. The error is fs.ErrExist if the name
// is taken; after any other error there is no file.
func Create(dir int, f Content, step func(string), beside ...int) error {
	step("new")
	made, err := makeFile(dir, f)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		defer made.Close() // again, after a panic
		step("flush")
		err = errors.Join(Flush(append(beside, int(made.Fd()))...), made.Close())
	}
	if err != nil {
		step("discard")
		_ = unix.Unlinkat(dir, f.Name, 0)
	}
	return err
}

// Replace replaces files so that after a crash each has its old or its new content, whole. It
// writes temporary files, flushes them and those in beside, renames them, and flushes dir.
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
			_ = unix.Unlinkat(dir, t.Name, 0) // fails for those already renamed
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

// makeFile creates a file. A file that could not be written whole stays; the caller
// removes it. The caller closes the returned file.
func makeFile(dir int, f Content) (*os.File, error) {
	fd, err := tree.Open(dir, f.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fault.Path("create", f.Name, err)
	}
	made := os.NewFile(uintptr(fd), f.Name)
	if _, err = made.Write(f.Data); err == nil {
		err = made.Chmod(0o600) // tree.Open passes no mode to openat2(2)
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// Held is a descriptor that the function which opened it closes at its end, also after a panic, unless
// it gives the descriptor away.
type Held int

// Close closes the descriptor. It does nothing once the descriptor is closed or given away.
func (h *Held) Close() {
	if fd := h.Give(); fd >= 0 {
		unix.Close(fd)
	}
}

// Give returns the descriptor, which the caller closes from then on.
func (h *Held) Give() (fd int) {
	fd, *h = int(*h), -1
	return fd
}

// Flush flushes files and directories to the disk; a flushed directory keeps its renames.
// All flushes run at the same time, so that a journal commits them together.
func Flush(fds ...int) error {
	errs := make([]error, len(fds))
	var wait sync.WaitGroup
	for i, fd := range fds {
		wait.Go(func() { errs[i] = fault.Path("flush", "file or directory", unix.Fsync(fd)) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// RemoveDir removes an empty directory. It does nothing if there is none.
func RemoveDir(dir int, name string) error { return unlink(dir, name, unix.AT_REMOVEDIR) }

// Remove removes a file. It does nothing if there is none.
func Remove(dir int, name string) error { return unlink(dir, name, 0) }

func unlink(dir int, name string, flags int) error {
	err := unix.Unlinkat(dir, name, flags)
	if err == unix.ENOENT {
		return nil
	}
	return fault.Path("remove", name, err)
}

// IsTemporary reports whether a name is that of a temporary file of Replace, which a crash leaves.
func IsTemporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// JSON encodes v as every file in the private directory is: indented, with a newline at the end.
func JSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}
