package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// open opens a directory for the test's time.
func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// chain makes a tree of so many levels below path, with a file in each, and
// needs only one descriptor for it.
func chain(t *testing.T, path string, depth int) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o755)
		}
		var file, next int
		if err == nil {
			file, err = unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			unix.Close(file)
		}
		if err == nil {
			next, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// fewFiles lets the test open no more files than a container usually may.
func fewFiles(t *testing.T) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = 1024
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

func TestOpenStaysInside(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pool/v/data"), "x")
	write(t, filepath.Join(dir, "secret"), "x")
	for link, to := range map[string]string{"abs": dir, "up": "..", "inside": "v"} {
		if err := os.Symlink(to, filepath.Join(dir, "pool", link)); err != nil {
			t.Fatal(err)
		}
	}
	pool := open(t, filepath.Join(dir, "pool"))
	for name, want := range map[string]error{"v": nil, "v/data": nil, "none": unix.ENOENT, "..": unix.EXDEV, "../secret": unix.EXDEV,
		dir: unix.EXDEV, "abs": unix.ELOOP, "abs/secret": unix.ELOOP, "up/secret": unix.ELOOP, "inside/data": unix.ELOOP} {
		fd, err := tree.Open(pool, name, unix.O_RDONLY)
		if err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	if _, err := tree.OpenDir(pool, "v/data"); err != unix.ENOTDIR {
		t.Error(err)
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside/precious")
	write(t, outside, "x")
	entry := filepath.Join(dir, "entry")
	for i := range 3000 {
		write(t, filepath.Join(entry, "wide", fmt.Sprint(i)), "")
	}
	for i := range 300 {
		write(t, filepath.Join(entry, "dirs", fmt.Sprint(i), "a", "b", "c"), "")
	}
	write(t, filepath.Join(entry, ".moved-1", "x"), "") // names of our own choice
	write(t, filepath.Join(entry, ".moved-2"), "")
	os.Symlink(outside, filepath.Join(entry, "link"))
	os.Symlink(filepath.Dir(outside), filepath.Join(entry, "wide", "linkdir"))
	os.Symlink("nowhere", filepath.Join(entry, "dangling"))
	os.Link(outside, filepath.Join(entry, "hard"))
	unix.Mkfifo(filepath.Join(entry, "pipe"), 0o600)
	os.Mkdir(filepath.Join(entry, "closed"), 0)
	before := openFiles(t)
	if err := tree.Remove(t.Context(), open(t, dir), "entry", nil); err != nil {
		t.Fatal(err)
	}
	if there(entry) || !there(outside) {
		t.Error("too little or too much was removed")
	}
	if after := openFiles(t) - 1; after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestRemoveWhatIsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	write(t, filepath.Join(dir, "target/data"), "")
	os.Symlink("target", filepath.Join(dir, "link"))
	fd := open(t, dir)
	for _, name := range []string{"none", "file", "link"} {
		if err := tree.Remove(t.Context(), fd, name, nil); err != nil || there(filepath.Join(dir, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !there(filepath.Join(dir, "target/data")) {
		t.Error("a link was followed")
	}
}

func TestRemoveDeep(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "entry"), 0o755)
	chain(t, filepath.Join(dir, "entry"), 5000)
	fewFiles(t)
	fd := open(t, dir)
	most, base := 0, openFiles(t)
	changes := 0
	err := tree.Remove(t.Context(), fd, "entry", func(context.Context) error {
		if changes++; changes%1000 == 0 {
			most = max(most, openFiles(t)-base)
		}
		return nil
	})
	if err != nil || there(filepath.Join(dir, "entry")) {
		t.Fatal(err)
	}
	if most > 5 {
		t.Errorf("%d files open at once", most)
	}
	// Unlinked, tried as a file and as a directory, moved, tried and removed.
	if changes > 5000*8 {
		t.Errorf("%d changes for 5000 directories", changes)
	}
}

func TestRemoveStopsAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "entry"), 0o755)
	chain(t, filepath.Join(dir, "entry"), 50)
	fd := open(t, dir)
	stop := errors.New("enough")
	for rounds := 0; ; rounds++ {
		left := 8 // the least that gets a directory moved up
		err := tree.Remove(t.Context(), fd, "entry", func(context.Context) error {
			if left--; left < 0 {
				return stop
			}
			return nil
		})
		if err == nil {
			break
		}
		if err != stop || rounds > 200 {
			t.Fatal(err, rounds)
		}
	}
	if there(filepath.Join(dir, "entry")) {
		t.Error("it is still there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write(t, filepath.Join(dir, "entry/x"), "")
	if err := tree.Remove(ctx, fd, "entry", nil); err != context.Canceled || !there(filepath.Join(dir, "entry/x")) {
		t.Error(err)
	}
}

// A tenant that goes on writing does not hold up the purge for ever.
func TestRemoveWhileSomebodyWrites(t *testing.T) {
	dir := t.TempDir()
	entry := filepath.Join(dir, "entry")
	write(t, filepath.Join(entry, "x"), "")
	fd, inside := open(t, dir), open(t, entry)
	var made atomic.Int64
	err := tree.Remove(t.Context(), fd, "entry", func(context.Context) error {
		name := fmt.Sprint("new", made.Add(1))
		f, err := unix.Openat(inside, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		unix.Close(f)
		if err == unix.ENOENT {
			return nil // the directory went
		}
		return err
	})
	if err == nil || there(filepath.Join(entry, "x")) {
		t.Errorf("%v", err)
	}
	if err := tree.Remove(t.Context(), fd, "entry", nil); err != nil || there(entry) {
		t.Error(err)
	}
}
