package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Disk is a loop device with a filesystem.
type Disk struct {
	scene  *Scene
	device string
	open   *os.File // while it is, the device exists; it goes with the process at the latest
}

// Disk creates a disk of that size in MiB with the filesystem, ext4, xfs or btrfs.
func (s *Scene) Disk(filesystem string, mebibytes int64) *Disk {
	s.Helper()
	image := s.Path("disks", filesystem)
	s.must("make image", os.WriteFile(image, nil, 0o600))
	s.must("make image", os.Truncate(image, mebibytes<<20))
	s.command("mkfs."+filesystem, "-q", image)
	device := s.attach(image)
	open, err := os.Open(device)
	s.must("open "+device, err)
	s.Cleanup(func() { open.Close() })
	s.command("losetup", "--detach", device) // from now on: when nobody uses it any more
	return &Disk{scene: s, device: device, open: open}
}

// Mount mounts the disk on the directory, and creates the directory if it is missing.
func (d *Disk) Mount(dir string, options ...string) {
	s := d.scene
	s.Helper()
	s.must("make mount point", os.MkdirAll(dir, 0o755))
	s.command("mount", append(options, d.device, dir)...)
	s.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// Remount sets the flags of the mount at dir, such as syscall.MS_RDONLY, for which it waits until no
// file is open for writing.
func (d *Disk) Remount(dir string, flags uintptr) {
	d.scene.Helper()
	d.scene.Eventually("remounted", func() error {
		d.scene.Helper()
		err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, "")
		if !errors.Is(err, syscall.EBUSY) {
			d.scene.must("remount "+dir, err)
		}
		return err
	})
}

// Unmount detaches the last mount on the directory, even if it is in use.
func (s *Scene) Unmount(dir string) {
	s.Helper()
	s.must("unmount", syscall.Unmount(dir, syscall.MNT_DETACH))
}

// Cover mounts an empty filesystem over the directory.
func (s *Scene) Cover(dir string, options ...string) {
	s.Helper()
	s.command("mount", append(append([]string{"-t", "tmpfs"}, options...), "tmpfs", dir)...)
	s.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

func (s *Scene) command(name string, args ...string) string {
	s.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// Children lists the names in a directory, except the pool's private directory.
func (s *Scene) Children(dir string) []string {
	s.Helper()
	entries, err := os.ReadDir(dir)
	s.must("list", err)
	names := []string{}
	for _, e := range entries {
		if e.Name() != ".hostpath-provisioner" && e.Name() != "lost+found" {
			names = append(names, e.Name())
		}
	}
	return names
}

// Tree describes everything below a directory: every path with its mode and, for a file, its
// content. What agents note in records in their own time is left out; see withoutLate.
func (s *Scene) Tree(dir string) string {
	s.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			data, err = os.ReadFile(path)
			data = withoutLate(path, data)
		}
		fmt.Fprintf(&text, "%s %s %s\n", path, info.Mode(), data)
		return err
	})
	s.must("walk", err)
	return text.String()
}

// withoutLate returns the content of a file without what agents write with the next purge, whenever that
// is: in a record, the key claim (row B4 of docs/on-disk-format.md).
func withoutLate(path string, data []byte) []byte {
	if filepath.Base(filepath.Dir(path)) != "records" {
		return data
	}
	var record map[string]json.RawMessage
	if json.Unmarshal(data, &record) != nil {
		return data
	}
	delete(record, "claim")
	rest, err := json.Marshal(record) // sorts the keys
	if err != nil {
		return data
	}
	return rest
}

// Exists returns nil if the path exists.
func Exists(path string) error {
	_, err := os.Lstat(path)
	return err
}

// Missing returns nil if the path does not exist.
func Missing(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is there", path)
}

// Write writes a file in a directory, creates the directory if it is missing, and flushes both.
func (s *Scene) Write(dir, name string, data []byte) {
	s.Helper()
	s.must("make directory", os.MkdirAll(dir, 0o777))
	f, err := os.Create(filepath.Join(dir, name))
	s.must("write", err)
	_, err = f.Write(data)
	s.must("write", errors.Join(err, f.Sync(), f.Close()))
}

// Fail makes the disk's filesystem, ext4, find an error in itself.
func (d *Disk) Fail() {
	d.scene.Helper()
	path := filepath.Join("/sys/fs/ext4", filepath.Base(d.device), "trigger_fs_error")
	d.scene.must("fail", os.WriteFile(path, []byte("a test\n"), 0o200))
}

// Freeze freezes the filesystem at dir, so that writes wait as on a disk that hangs, until thaw is
// called or the test ends. At the end it is thawed before the agents are stopped, because one that
// waits for the disk cannot end.
func (d *Disk) Freeze(dir string) (thaw func()) {
	d.scene.Helper()
	d.scene.command("fsfreeze", "--freeze", dir)
	thaw = sync.OnceFunc(func() {
		if out, err := exec.Command("fsfreeze", "--unfreeze", dir).CombinedOutput(); err != nil {
			d.scene.Errorf("thaw %s: %v: %s", dir, err, out)
		}
	})
	d.scene.thaws = append(d.scene.thaws, thaw)
	d.scene.Cleanup(thaw)
	return thaw
}

// Groups returns the bytes that the qgroups of level 1 of the disk's filesystem count, btrfs with quotas,
// by their names. There is one for each quota. One that counts nothing is no volume's, whose directory
// has a block.
func (d *Disk) Groups() (map[string]int64, error) {
	found, err := filepath.Glob("/sys/fs/btrfs/*/devices/" + filepath.Base(d.device))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d btrfs filesystems are on %s, want 1", len(found), d.device)
	}
	if err != nil {
		return nil, err
	}
	groups, err := filepath.Glob(filepath.Join(found[0], "..", "..", "qgroups", "1_*"))
	counts := map[string]int64{}
	for _, g := range groups {
		text, unread := os.ReadFile(filepath.Join(g, "referenced"))
		if errors.Is(unread, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		n, wrong := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		counts[filepath.Base(g)], err = n, errors.Join(err, unread, wrong)
	}
	return counts, err
}

// RoomToKeep ends the test unless the filesystem of a directory has a tenth free: with less, agents remove
// the deleted volumes that the test has them keep.
func RoomToKeep(t TB, dir string) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Bavail < st.Blocks/10 {
		t.Fatalf("the disk of %s has %d of %d MiB free, less than a tenth, so no deleted volume is kept: make room", dir,
			st.Bavail*uint64(st.Frsize)>>20, st.Blocks*uint64(st.Frsize)>>20)
	}
}
