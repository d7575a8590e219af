package volume_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
)

// What a copy lacks is in its record before the copy is in place, and until the claim has the event: a
// process that is killed between the two would lose it.
func TestCloneRecordsWhatItLacks(t *testing.T) {
	p, reached, release := held(t, "clone.flush")
	v := sourceIn(t, p)
	switch err := unix.Mknod(filepath.Join(v.Path, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err {
	case nil:
	case unix.EPERM:
		t.Skip("only root may make the device node that a copy lacks")
	default:
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := cloned(p, spec("c", gib)); done <- err }()
	<-reached
	killed := filepath.Join(t.TempDir(), "pool")
	copyTree(t, p.Path(), killed)
	release()
	ok(t, <-done)

	for what, p := range map[string]*volume.Pool{"landed": p, "killed": opened(t, volume.Config{Name: "pool", Path: killed})} {
		c, err := p.Get("c")
		ok(t, err)
		if !strings.Contains(c.LeftOut, "null") {
			t.Fatalf("%s: left out %q", what, c.LeftOut)
		}
		_, err = p.Bind("c", binding("c"))
		ok(t, err)
		ok(t, p.Reported("c", "something else"))
		if got := onDisk(t, p, "c").LeftOut; got != c.LeftOut {
			t.Errorf("%s: %q on the disk once it is bound, want %q", what, got, c.LeftOut)
		}
		ok(t, p.Reported("c", c.LeftOut))
		purge(t, p)
		if now, err := p.Get("c"); err != nil || now.LeftOut != "" || onDisk(t, p, "c").LeftOut != "" {
			t.Errorf("%s, and reported: %q, %v", what, now.LeftOut, err)
		}
		is(t, p.Reported("none", "null"), volume.ErrNotFound)
		consistent(t, p)
	}
}

// The next claim has no event about a copy that was made for another.
func TestTransferForgetsWhatACopyLacks(t *testing.T) {
	p := newPool(t)
	create(t, p, "c")
	_, err := p.Bind("c", binding("c"))
	ok(t, err)
	ok(t, p.Close())
	r := onDisk(t, p, "c")
	r.LeftOut = "left out 1: null"
	recordFile(t, p.Path(), r)
	p = opened(t, volume.Config{Path: p.Path()})
	b := binding("c")
	b.Owner.UID = "uid-next"
	ok(t, p.Transfer("c", "uid-c", b))
	if got := onDisk(t, p, "c").LeftOut; got != "" {
		t.Errorf("%q", got)
	}
}
