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

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	entry := filepath.Join(dir, "entry")
	const mib = 1 << 20
	write(t, filepath.Join(dir, "outside"), strings.Repeat("x", 8*mib))
	write(t, filepath.Join(entry, "a/b/data"), strings.Repeat("x", mib))
	os.Link(filepath.Join(entry, "a/b/data"), filepath.Join(entry, "again"))
	os.Symlink("../outside", filepath.Join(entry, "link"))
	os.Symlink("..", filepath.Join(entry, "up"))
	write(t, filepath.Join(entry, "sparse"), "")
	if err := os.Truncate(filepath.Join(entry, "sparse"), 100*mib); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 { // more than one batch of names
		os.MkdirAll(filepath.Join(entry, "wide", fmt.Sprintf("a-name-of-some-length-%d", i)), 0o755)
	}
	write(t, filepath.Join(entry, "wide/a-name-of-some-length-500/data"), strings.Repeat("x", mib))
	_ = unix.Syncfs(open(t, dir)) // delayed allocation
	entries := 0
	got, err := tree.Measure(t.Context(), open(t, dir), "entry", func(context.Context) error { entries++; return nil }, nil)
	if err != nil || got.Bytes < 2*mib || got.Bytes > 7*mib || got.Own != got.Bytes && got.Own < 2*mib {
		t.Errorf("%+v, %v", got, err)
	}
	if entries != 1009 {
		t.Errorf("%d entries", entries)
	}
}

func TestMeasureDeep(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "entry"), 0o755)
	chain(t, filepath.Join(dir, "entry"), 5000)
	fewFiles(t)
	fd := open(t, dir)
	entries, most, base := 0, 0, openFiles(t)
	_, err := tree.Measure(t.Context(), fd, "entry", func(context.Context) error {
		if entries++; entries%1000 == 0 {
			most = max(most, openFiles(t)-base)
		}
		return nil
	}, nil)
	if err != nil || entries != 10000 || most > 20 {
		t.Errorf("%d entries, %d files open, %v", entries, most, err)
	}
	if err := tree.Remove(t.Context(), fd, "entry", nil); err != nil {
		t.Error(err)
	}
}

func TestMeasureErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "entry/a/data"), "x")
	fd := open(t, dir)
	if _, err := tree.Measure(t.Context(), fd, "none", nil, nil); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	stop := errors.New("enough")
	if _, err := tree.Measure(t.Context(), fd, "entry", func(context.Context) error { return stop }, nil); err != stop {
		t.Error(err)
	}
	// A directory that is moved while it is read is read on.
	os.Mkdir(filepath.Join(dir, "entry/other"), 0o755)
	moved := false
	_, err := tree.Measure(t.Context(), fd, "entry", func(context.Context) error {
		if lastFD(t) != "" && !moved {
			moved = true
			return os.Rename(filepath.Join(dir, "entry/a"), filepath.Join(dir, "entry/other/a"))
		}
		return nil
	}, nil)
	if !moved || err != nil {
		t.Errorf("moved %v: %v", moved, err)
	}
	// Far below it going up leads elsewhere, and that is noticed. Alone, so that the filesystem's
	// order of names does not matter.
	if err := os.RemoveAll(filepath.Join(dir, "entry/other/a")); err != nil {
		t.Fatal(err)
	}
	chain(t, filepath.Join(dir, "entry/other"), 40)
	entries := 0
	_, err = tree.Measure(t.Context(), fd, "entry/other", func(context.Context) error {
		if entries++; entries == 80 {
			return os.Rename(filepath.Join(dir, "entry/other/d/d/d/d"), filepath.Join(dir, "entry/d"))
		}
		return nil
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "moved meanwhile") {
		t.Errorf("%d entries, %v", entries, err)
	}
}

// lastFD is the link of the descriptor that is open on a directory below
// entry, if there is one.
func lastFD(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && strings.HasSuffix(to, "/entry/a") {
			return fd
		}
	}
	return ""
}
