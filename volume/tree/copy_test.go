package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// copied copies dir/entry to a new directory dir/copy and returns that.
func copied(t *testing.T, dir string) (path string, left tree.LeftOut) {
	t.Helper()
	path = filepath.Join(dir, "copy")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	made, err := tree.Copy(t.Context(), open(t, dir), "entry", open(t, path), tree.CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return path, made.LeftOut
}

func stat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// same fails the test unless both trees hold the same: names, kinds, modes,
// owners, times, contents, targets of links and which files are one.
func same(t *testing.T, a, b string) {
	t.Helper()
	if x, y := listing(t, a), listing(t, b); x != y {
		t.Errorf("the original:\n%s\nthe copy:\n%s", x, y)
	}
}

func listing(t *testing.T, top string) string {
	t.Helper()
	var out bytes.Buffer
	first := map[uint64]string{}
	err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		st := stat(t, path)
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			return nil
		}
		fmt.Fprintf(&out, "%q %o %d:%d %d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, _ := os.Readlink(path)
			fmt.Fprintf(&out, " -> %q", target)
		case unix.S_IFREG:
			fmt.Fprintf(&out, " %d bytes, %x", st.Size, sum(path))
		}
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			fmt.Fprintf(&out, " is %q", first[st.Ino])
		}
		fmt.Fprintln(&out)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sum reads in pieces: a file with holes may be larger than memory.
func sum(path string) uint32 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	h := crc32.NewIEEE()
	_, _ = io.Copy(h, f)
	return h.Sum32()
}

// hostileNames break programs that take a name for a word or for text.
func hostileNames() []string {
	return []string{"new\nline", "bad\xff\xfeutf8", strings.Repeat("n", 255), "-rf", "*", " ", "\\", "\"'`$(x)", "\x01", "..."}
}

func populate(t *testing.T, entry string) {
	t.Helper()
	write(t, filepath.Join(entry, "a/b/data"), strings.Repeat("x", 3<<20))
	write(t, filepath.Join(entry, "empty"), "")
	for _, name := range hostileNames() {
		write(t, filepath.Join(entry, "names", name), name)
		write(t, filepath.Join(entry, "dirs", name, "data"), name)
		os.Symlink(name, filepath.Join(entry, "names", name[:min(len(name), 250)]+"-link"))
	}
	os.Link(filepath.Join(entry, "a/b/data"), filepath.Join(entry, "again"))
	os.Link(filepath.Join(entry, "a/b/data"), filepath.Join(entry, "names/third"))
	os.Symlink("/etc/passwd", filepath.Join(entry, "out"))
	os.Link(filepath.Join(entry, "out"), filepath.Join(entry, "a/out-again"))
	unix.Mkfifo(filepath.Join(entry, "pipe"), 0o620)
	os.Mkdir(filepath.Join(entry, "closed"), 0)
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sock)
	at, err := unix.Open(entry, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	unix.Bind(sock, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", at)})
	os.Chmod(filepath.Join(entry, "empty"), 0o4711|os.ModeSetuid)
	// From the inside out, so that the times stay.
	for i, path := range []string{"a/b/data", "a/b", "a", "empty", "."} {
		when := time.Unix(1e9+int64(i), 123456789)
		if err := os.Chtimes(filepath.Join(entry, path), when, when); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	entry := filepath.Join(dir, "entry")
	populate(t, entry)
	before := openFiles(t)
	path, left := copied(t, dir)
	same(t, entry, path)
	if left.Total != 0 || there(filepath.Join(path, "socket")) || !there(filepath.Join(entry, "socket")) {
		t.Errorf("%v", left)
	}
	if links, _ := filepath.Glob(filepath.Join(path, ".links-*")); len(links) > 0 {
		t.Errorf("%v is left", links)
	}
	if after := openFiles(t) - 2; after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func TestCopyDeep(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "entry"), 0o755)
	os.Mkdir(filepath.Join(dir, "copy"), 0o755)
	chain(t, filepath.Join(dir, "entry"), 1000)
	fd, to := open(t, dir), open(t, filepath.Join(dir, "copy"))
	entries, most, base := 0, 0, openFiles(t)
	pace := func(context.Context) error {
		if entries++; entries%100 == 0 {
			most = max(most, openFiles(t)-base)
		}
		return nil
	}
	made, err := tree.Copy(t.Context(), fd, "entry", to, tree.CopyOptions{Pace: pace})
	if err != nil || made.Entries != 2000 || entries != 3*2000 || most > 40 {
		t.Errorf("%+v, %d entries, %d files open, %v", made, entries, most, err)
	}
	for _, name := range []string{"entry", "copy"} {
		n := 0
		if _, err := tree.Measure(t.Context(), fd, name, func(context.Context) error { n++; return nil }, nil); err != nil || n != 2000 {
			t.Errorf("%s has %d entries, %v", name, n, err)
		}
	}
}

func TestCopyErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "entry/a/data"), "x")
	write(t, filepath.Join(dir, "full/x"), "")
	write(t, filepath.Join(dir, "file"), "")
	os.Symlink("entry", filepath.Join(dir, "link"))
	os.Mkdir(filepath.Join(dir, "copy"), 0o700)
	fd, to := open(t, dir), open(t, filepath.Join(dir, "copy"))
	for name, want := range map[string]error{"none": unix.ENOENT, "file": unix.ENOTDIR, "link": unix.ENOTDIR, "..": unix.EXDEV} {
		if _, err := tree.Copy(t.Context(), fd, name, to, tree.CopyOptions{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := tree.Copy(t.Context(), fd, "entry", open(t, filepath.Join(dir, "full")), tree.CopyOptions{}); !errors.Is(err, unix.ENOTEMPTY) {
		t.Error(err)
	}
	stop := errors.New("enough")
	if _, err := tree.Copy(t.Context(), fd, "entry", to, tree.CopyOptions{Pace: func(context.Context) error { return stop }}); err != stop {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tree.Copy(ctx, fd, "entry", to, tree.CopyOptions{}); err != context.Canceled {
		t.Error(err)
	}
}
