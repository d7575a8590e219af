package volume_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A tenant who keeps writing into a deleted volume, as fast as it is purged,
// keeps nobody else's space: neither what is in the trash beside it nor what
// comes later.
func TestPurgeTakesTurns(t *testing.T) {
	inside, made := -1, atomic.Int64{}
	p := opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Step: func(step string) {
		if step != "purge.remove" || inside < 0 {
			return
		}
		for range 2 {
			name := fmt.Sprint("new", made.Add(1))
			if fd, err := unix.Openat(inside, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
				unix.Close(fd)
			}
		}
	}})
	for _, name := range []string{"endless", "a", "b", "c"} {
		write(t, filepath.Join(create(t, p, name).Path, "data"), "x")
	}
	fd, err := unix.Open(filepath.Join(p.Path(), "endless"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	inside = fd
	defer unix.Close(fd)
	for _, name := range []string{"endless", "a", "b"} {
		ok(t, p.Delete(name))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := p.Purge(ctx)
		done <- err
	}()
	only := func(what string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); len(names(t, filepath.Join(p.Path(), trash))) > 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is still in the trash", what)
			}
		}
	}
	only("what was deleted before")
	ok(t, p.Delete("c"))
	only("what was deleted meanwhile")
	cancel()
	<-done
	if left := names(t, filepath.Join(p.Path(), trash)); len(left) != 2 {
		t.Errorf("trash %v; the test proves nothing unless the endless one is left", left)
	}
}
