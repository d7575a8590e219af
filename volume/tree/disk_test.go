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

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

func onEveryDisk(t *testing.T, do func(t *testing.T, dir string)) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) { do(t, testdisk.Mount(t, kind)) })
	}
}

func TestDiskRemoveFlags(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		// From the inside out: below an immutable directory nothing can be made.
		for _, f := range []struct {
			name  string
			flags uint32
		}{
			{"entry/file", quota.Immutable}, {"entry/log", quota.AppendOnly}, {"entry/frozen/sub/file", quota.Immutable},
			{"entry/frozen/sub", quota.Immutable}, {"entry/frozen", quota.AppendOnly}, {"entry", quota.Immutable},
		} {
			path := filepath.Join(dir, f.name)
			if !there(path) {
				write(t, path, "x")
			}
			change(t, path, f.flags)
		}
		if err := os.RemoveAll(filepath.Join(dir, "entry")); err == nil {
			t.Fatal("the flags forbid nothing; the test proves nothing")
		}
		if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(filepath.Join(dir, "entry")) {
			t.Error(err)
		}
	})
}

// change sets exactly these of the immutable and append-only flags.
func change(t *testing.T, path string, flags uint32) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	a, err := quota.GetAttr(fd)
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = a.Flags&^(quota.Immutable|quota.AppendOnly) | flags
	if err := quota.SetAttr(fd, a); err != nil {
		t.Fatal(err)
	}
}

func TestDiskRemoveStopsAtMounts(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "outside/precious"), "x")
		write(t, filepath.Join(dir, "entry/a/b/target/hidden"), "x")
		write(t, filepath.Join(dir, "entry/a/file"), "x")
		write(t, filepath.Join(dir, "entry/goes/x"), "x")
		// Of the same filesystem, so that device numbers do not differ.
		testdisk.Bind(t, filepath.Join(dir, "outside"), filepath.Join(dir, "entry/a/b/target"))
		testdisk.Bind(t, filepath.Join(dir, "outside/precious"), filepath.Join(dir, "entry/a/file"))
		fd := open(t, dir)
		err := tree.Remove(t.Context(), fd, "entry", nil)
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EXDEV) || !strings.Contains(err.Error(), "mounted") {
			t.Errorf("error %v", err)
		}
		if !there(filepath.Join(dir, "outside/precious")) || there(filepath.Join(dir, "entry/goes")) {
			t.Error("too much or too little was removed")
		}
		testdisk.Detach(t, filepath.Join(dir, "entry/a/b/target"))
		mounts, _ := filepath.Glob(filepath.Join(dir, "entry/.moved-*/target"))
		for _, m := range append(mounts, filepath.Join(dir, "entry/a/file")) {
			testdisk.Detach(t, m)
		}
		moved, _ := filepath.Glob(filepath.Join(dir, "entry/*/file"))
		for _, m := range moved {
			testdisk.Detach(t, m)
		}
		if err := tree.Remove(t.Context(), fd, "entry", nil); err != nil || !there(filepath.Join(dir, "outside/precious")) {
			t.Error(err)
		}
	})
}

// A mounted entry is left alone altogether.
func TestDiskRemoveMountedEntry(t *testing.T) {
	dir := testdisk.Mount(t, "ext4")
	write(t, filepath.Join(dir, "outside/precious"), "x")
	os.Mkdir(filepath.Join(dir, "entry"), 0o755)
	testdisk.Bind(t, filepath.Join(dir, "outside"), filepath.Join(dir, "entry"))
	if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err == nil || !there(filepath.Join(dir, "outside/precious")) {
		t.Error(err)
	}
}

// Directories of other project IDs cannot be renamed below a directory that
// hands down its own; the flag goes.
func TestDiskRemoveProjects(t *testing.T) {
	dir := testdisk.Mount(t, "xfs")
	deep := filepath.Join(dir, "entry")
	for i := range 12 {
		deep = filepath.Join(deep, "d")
		write(t, filepath.Join(deep, "f"), "")
		project(t, deep, uint32(100+i))
	}
	project(t, filepath.Join(dir, "entry"), 99)
	if err := os.Rename(filepath.Join(dir, "entry/d/d"), filepath.Join(dir, "entry/x")); !errors.Is(err, unix.EXDEV) {
		t.Fatalf("rename: %v; the test proves nothing", err)
	}
	if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(filepath.Join(dir, "entry")) {
		t.Error(err)
	}
}

func project(t *testing.T, path string, id uint32) {
	t.Helper()
	fd := open(t, path)
	a, err := quota.GetAttr(fd)
	if err != nil {
		t.Fatal(err)
	}
	a.Project, a.Flags = id, a.Flags|quota.ProjectInherit
	if err := quota.SetAttr(fd, a); err != nil {
		t.Fatal(err)
	}
}

// Any user can nest subvolumes, and plain directories cannot be renamed out of
// one.
func TestDiskRemoveSubvolumes(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	deep := filepath.Join(dir, "entry")
	for range 15 {
		deep = filepath.Join(deep, "plain")
		os.MkdirAll(deep, 0o755)
		testdisk.Run(t, "btrfs", "-q", "subvolume", "create", filepath.Join(deep, "sub"))
		deep = filepath.Join(deep, "sub")
		write(t, filepath.Join(deep, "a/b/c/d/data"), strings.Repeat("x", 64<<10))
	}
	testdisk.Sync(t, dir)
	fd := open(t, dir)
	if n, err := tree.Measure(t.Context(), fd, "entry", nil, nil); err != nil || n.Bytes < 15*64<<10 {
		t.Errorf("%+v, %v", n, err)
	}
	most, base := 0, openFiles(t)
	err := tree.Remove(t.Context(), fd, "entry", func(context.Context) error {
		most = max(most, openFiles(t)-base)
		return nil
	})
	if err != nil || there(filepath.Join(dir, "entry")) || most > 8 {
		t.Errorf("%d files open, %v", most, err)
	}
}

func TestDiskMeasureStopsAtMounts(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "outside/big"), strings.Repeat("x", 4<<20))
		write(t, filepath.Join(dir, "entry/file"), "x")
		os.Mkdir(filepath.Join(dir, "entry/dir"), 0o755)
		testdisk.Sync(t, dir)
		testdisk.Bind(t, filepath.Join(dir, "outside"), filepath.Join(dir, "entry/dir"))
		testdisk.Bind(t, filepath.Join(dir, "outside/big"), filepath.Join(dir, "entry/file"))
		if n, err := tree.Measure(t.Context(), open(t, dir), "entry", nil, nil); err != nil || n.Bytes > 1<<20 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// Wide and deep enough that reading a directory while it changes shows.
func TestDiskRemoveEverywhere(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		for i := range 5000 {
			write(t, filepath.Join(dir, fmt.Sprintf("entry/%d/%d/%d/data", i%7, i%70, i)), "")
		}
		if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil || there(filepath.Join(dir, "entry")) {
			t.Error(err)
		}
	})
}
