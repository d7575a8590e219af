package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A tenant who keeps writing into a deleted volume, as fast as it is purged,
// does not keep the space of other volumes, neither of those in the trash beside it nor of
// later ones.
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

// Until its record is beside it, a volume may come back, and a start takes what has its
// name for the volume once the entry is gone.
func TestPurgeLeavesWhatMoves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	var at func()
	p := opened(t, volume.Config{Path: path, Step: func(step string) {
		if step == "delete.move" && at != nil {
			at()
		}
	}})
	entries := func(want int) {
		t.Helper()
		if found, _ := filepath.Glob(filepath.Join(path, trash, "*", "data")); len(found) != want {
			t.Errorf("trash %v, want %d entries", names(t, filepath.Join(path, trash)), want)
		}
	}
	write(t, filepath.Join(create(t, p, "v").Path, "data"), "x")
	purged := false
	at = func() {
		// The call is under way, and the purge does not wait for it.
		if _, err := p.Purge(t.Context()); err != nil {
			t.Errorf("beside the deletion: %v", err)
		}
		entries(1)
		purged = true
	}
	ok(t, p.Delete("v"))
	if !purged {
		t.Fatal("it proves nothing")
	}
	purge(t, p)

	write(t, filepath.Join(create(t, p, "v").Path, "data"), "x")
	var inTheWay string
	at = func() {
		inTheWay = onDisk(t, p, "v").Trash + ".json"
		mkdir(t, filepath.Join(path, trash, inTheWay, "x"))
	}
	if p.Delete("v") == nil {
		t.Fatal("the record cannot be moved, and it says nothing")
	}
	if _, err := p.Purge(t.Context()); err == nil {
		t.Error("the purge does not say what it leaves")
	}
	entries(1)
	at = nil
	ok(t, os.RemoveAll(filepath.Join(path, trash, inTheWay)))
	if _, err := p.Purge(t.Context()); err != nil {
		t.Error(err)
	}
	entries(1) // its caller has an error, and decides
	ok(t, p.Delete("v"))
	purge(t, p)
	consistent(t, p)
}

// A purge does not wait for a volume that a call works on to write its record.
func TestPurgeBesideAPin(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	ok(t, p.Pin("v", func(volume.Pinned) error {
		_, err := p.Purge(t.Context())
		return err
	}))
	if r := onDisk(t, p, "v"); r.State != record.Creating {
		t.Errorf("on disk %+v", r)
	}
	purge(t, p)
	if r := onDisk(t, p, "v"); r.State != record.Ready {
		t.Errorf("on disk %+v", r)
	}
}
