//go:build disk

package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// works are what is done to a tenant's tree, dir/entry. A copy goes to a new
// directory dir/copy-N.
func works(t *testing.T, dir string) map[string]func(tree.Pace) error {
	fd, copies := open(t, dir), 0
	return map[string]func(tree.Pace) error{
		"measure": func(pace tree.Pace) error {
			_, err := tree.Measure(t.Context(), fd, "entry", pace, nil)
			return err
		},
		"copy": func(pace tree.Pace) error {
			copies++
			to := filepath.Join(dir, fmt.Sprint("copy-", copies))
			if err := os.Mkdir(to, 0o700); err != nil {
				return err
			}
			_, err := tree.Copy(t.Context(), fd, "entry", open(t, to), tree.CopyOptions{Pace: pace})
			return err
		},
		"remove": func(pace tree.Pace) error { return tree.Remove(t.Context(), fd, "entry", pace) },
	}
}

// secret is in a directory beside the tenant's tree. It must stay where it is,
// as it is, and unread.
const secret = "the secret of somebody else"

func outside(t *testing.T, dir string) (path string, intact func()) {
	t.Helper()
	path = filepath.Join(dir, "outside")
	write(t, filepath.Join(path, "data"), secret)
	write(t, filepath.Join(path, "sub/data"), secret)
	os.Chmod(filepath.Join(path, "data"), 0o641)
	before := listing(t, path)
	return path, func() {
		t.Helper()
		if now := listing(t, path); now != before {
			t.Fatalf("outside was:\n%s\nand is:\n%s", before, now)
		}
		all, err := filepath.Glob(filepath.Join(dir, "copy-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range all {
			filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
				if data, _ := os.ReadFile(path); err == nil && e.Type().IsRegular() && strings.Contains(string(data), secret) {
					t.Fatalf("%s has what is outside", path)
				}
				return nil
			})
			os.RemoveAll(top)
		}
	}
}

// At each single step in turn, directories of the tree are swapped for links that
// lead out of it: every entry may have changed since it was checked. None leads
// to /, which a failing test would remove.
func TestDiskSwappedBetweenSteps(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		out, intact := outside(t, dir)
		for name, work := range works(t, dir) {
			for _, target := range []string{out, "../outside"} {
				for at, swapped := 1, true; swapped; at++ {
					write(t, filepath.Join(dir, "entry/a/b/data"), "mine")
					write(t, filepath.Join(dir, "entry/a/sub/data"), "mine")
					write(t, filepath.Join(dir, "entry/data"), "mine")
					os.Symlink(target, filepath.Join(dir, "entry/link"))
					os.Symlink(out, filepath.Join(dir, "entry/a/link"))
					steps := 0
					swapped = false
					err := work(func(context.Context) error {
						if steps++; steps == at {
							for _, pair := range [][2]string{{"a/b", "a/link"}, {"a", "link"}} {
								_ = exchange(dir, pair) // it may be gone by now
							}
							swapped = true
						}
						return nil
					})
					if intact(); name == "remove" && err == nil && there(filepath.Join(dir, "entry")) {
						t.Errorf("said to be removed, and there; swapped at step %d", at)
					}
					if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

func exchange(dir string, pair [2]string) error {
	at := func(name string) string { return filepath.Join(dir, "entry", name) }
	return unix.Renameat2(unix.AT_FDCWD, at(pair[0]), unix.AT_FDCWD, at(pair[1]), unix.RENAME_EXCHANGE)
}

// On btrfs, directories that a tenant renames at every step appear again, but not for ever.
func TestDiskMeasureEnds(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	at := func(n int) string { return filepath.Join(dir, "entry", fmt.Sprint(n)) }
	for name, work := range works(t, dir) {
		for i := range 3 {
			os.MkdirAll(at(i), 0o755)
		}
		n := 0
		err := work(func(context.Context) error {
			n++
			os.Rename(at(n-2), at(n+1)) // the one before the one that is read
			return nil
		})
		if name != "remove" && !errors.Is(err, tree.ErrBusy) {
			t.Errorf("%s: %v after %d entries", name, err, n)
		}
		os.RemoveAll(filepath.Join(dir, "entry"))
	}
}

// The same by a tenant that does not wait for steps.
func TestDiskSwappedMeanwhile(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		out, intact := outside(t, dir)
		swaps := 0
		for range 10 {
			for name, work := range works(t, dir) {
				for i := range 30 {
					write(t, filepath.Join(dir, fmt.Sprintf("entry/d%d/sub/data", i)), "mine")
				}
				write(t, filepath.Join(dir, "entry/data"), "mine")
				os.Symlink(out, filepath.Join(dir, "entry/link"))
				os.Symlink(filepath.Join(out, "data"), filepath.Join(dir, "entry/to-data"))
				end := racing(func() {
					for _, pair := range [][2]string{{"d3", "link"}, {"d7", "link"}, {"data", "to-data"}} {
						if exchange(dir, pair) == nil {
							swaps++
						}
					}
				})
				err := work(nil)
				end()
				if intact(); err != nil && name == "copy" && !errors.Is(err, tree.ErrBusy) {
					t.Error(err)
				}
				if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(filepath.Join(dir, "entry")) {
					t.Fatal(err)
				}
			}
		}
		if swaps < 100 {
			t.Errorf("%d swaps; the test proves nothing", swaps)
		}
		intact()
	})
}

// racing does something over and over until end is called.
func racing(do func()) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				do()
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// A tmpfs and an overlay in the tree stay, with what is in them.
func TestDiskMountsInside(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		entry := filepath.Join(dir, "entry")
		for _, name := range []string{"memory", "low", "up", "work", "merged", "plain/deep"} {
			os.MkdirAll(filepath.Join(entry, name), 0o755)
		}
		mountInside(t, entry)
		write(t, filepath.Join(entry, "memory/big"), strings.Repeat("x", 4<<20))
		if n, err := tree.Measure(t.Context(), open(t, dir), "entry", nil, nil); err != nil || n.Bytes > 1<<20 {
			t.Errorf("%+v, %v", n, err)
		}
		err := tree.Remove(t.Context(), open(t, dir), "entry", nil)
		if err == nil || !strings.Contains(err.Error(), "mounted") {
			t.Error(err)
		}
		if !there(filepath.Join(entry, "memory/big")) || !there(filepath.Join(entry, "merged")) || there(filepath.Join(entry, "plain")) {
			t.Error("too much or too little was removed")
		}
		testdisk.Detach(t, filepath.Join(entry, "memory"))
		testdisk.Detach(t, filepath.Join(entry, "merged"))
		if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(entry) {
			t.Error(err)
		}
	})
}

// Unusual names, kinds of files and flags.
func TestDiskRemoveAnything(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		entry := filepath.Join(dir, "entry")
		populate(t, entry)
		unix.Mknod(filepath.Join(entry, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		unix.Mknod(filepath.Join(entry, "disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0)))
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(entry, "socket"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			t.Fatalf("no socket: %v", err)
		}
		for _, name := range []string{"pipe", "out", "socket", "null"} {
			freeze(t, filepath.Join(entry, name))
		}
		if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(entry) {
			t.Error(err)
		}
	})
}

// freeze makes what cannot be opened immutable, where kernel and filesystem
// can do that: XFS since Linux 6.17, by file_setattr(2).
func freeze(t *testing.T, path string) {
	t.Helper()
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	a := struct { // struct file_attr of include/uapi/linux/fs.h
		flags uint64
		_     [4]uint32
	}{flags: quota.Immutable}
	here := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_FILE_SETATTR, uintptr(here), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&a)),
		unsafe.Sizeof(a), unix.AT_SYMLINK_NOFOLLOW, 0)
	switch {
	case errno == unix.ENOSYS || errno == unix.EOPNOTSUPP:
	case errno != 0:
		t.Fatal(path, errno)
	case os.Remove(path) == nil:
		t.Fatalf("%s is immutable and can be removed; the test proves nothing", path)
	}
}
