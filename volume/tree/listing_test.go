package tree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A copy waits until the last change that a listing compares is a tick ago, also that of the directory
// itself: a later change has another time then.
func TestUnsettled(t *testing.T) {
	at, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	dir := filepath.Join(procPath(at), "top")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait := func(o CopyOptions, since time.Duration) time.Duration {
		t.Helper()
		l, err := list(t.Context(), at, "top", o)
		if err != nil {
			t.Fatal(err)
		}
		return l.unsettled(ctimeOf(t, file).Add(since))
	}
	time.Sleep(2 * tick)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name        string
		changes     Changes
		since, want time.Duration
	}{
		{"just changed", NoChanges, 0, tick},
		{"changed half a tick ago", NoChanges, tick / 2, tick / 2},
		{"long ago", NoChanges, time.Hour, 0},
		{"the clock was set back", NoChanges, -time.Hour, tick},
		{"a file that may change", ChangesOfOneFile, 0, 0},
	} {
		if got := wait(CopyOptions{Changes: row.changes}, row.since); got != row.want {
			t.Errorf("%s: waits for %s, want %s", row.name, got, row.want)
		}
	}
	time.Sleep(2 * tick)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := list(t.Context(), at, "top", CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now := ctimeOf(t, dir); l.unsettled(now) != tick {
		t.Errorf("the directory itself changed: waits for %s", l.unsettled(now))
	}
}

func ctimeOf(t *testing.T, path string) time.Time {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return time.Unix(st.Ctim.Unix())
}
