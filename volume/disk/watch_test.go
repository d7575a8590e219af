package disk

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A file that matches is noticed at any depth, also in directories that came after the watch began.
func TestWatch(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	woken := make(chan struct{}, 100)
	w, err := Watch(dir, regexp.MustCompile("^disk-"), func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if !w.Watches(dir, regexp.MustCompile("^disk-")) {
		t.Error("the watcher does not watch its directory")
	}
	if w.Watches(dir, regexp.MustCompile("^data-")) || w.Watches(elsewhere, regexp.MustCompile("^disk-")) {
		t.Error("the watcher watches other names, or another directory")
	}
	file := func(path ...string) func() error {
		return func() error { return os.Symlink("/dev/null", filepath.Join(path...)) }
	}
	directory := func(path ...string) func() error {
		return func() error { return os.Mkdir(filepath.Join(path...), 0o700) }
	}
	for _, row := range []struct {
		name  string
		do    func() error
		wakes bool
	}{
		{"another file", file(dir, "other"), false},
		{"a file", file(dir, "disk-1"), true},
		{"a directory", directory(dir, "a"), true},
		{"a file in it", file(dir, "a", "disk-2"), true},
		{"another file in it", file(dir, "a", "other"), false},
		{"a directory in it", directory(dir, "a", "b"), true},
		{"a file in that", file(dir, "a", "b", "disk-3"), true},
		{"a directory elsewhere", directory(elsewhere, "c"), false},
		{"that is moved here", func() error { return os.Rename(filepath.Join(elsewhere, "c"), filepath.Join(dir, "c")) },
			true},
		{"a file in the moved one", file(dir, "c", "disk-4"), true},
		{"a file that goes", func() error { return os.Remove(filepath.Join(dir, "c", "disk-4")) }, true},
	} {
		if err := row.do(); err != nil {
			t.Fatal(err)
		}
		if got := wakes(woken, row.wakes); got != row.wakes {
			t.Errorf("%s: wake was called: %v, want %v", row.name, got, row.wakes)
		}
	}
}

// wakes reports whether there is a call soon, and drops all that follow. A call that is expected
// has much longer to come.
func wakes(woken <-chan struct{}, expected bool) (any bool) {
	wait := 100 * time.Millisecond
	if expected {
		wait = 10 * time.Second
	}
	for {
		select {
		case <-woken:
			any, wait = true, 100*time.Millisecond
		case <-time.After(wait):
			return any
		}
	}
}
