package volume_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// twoPools returns pools of one process, the second of which stops at a step until release is called. The
// first has the volume v.
func twoPools(t *testing.T, at string) (pools *volume.Pools, from, to *volume.Pool, reached chan struct{}, release func()) {
	t.Helper()
	to, reached, release = held(t, at)
	from = opened(t, volume.Config{Name: "from", Path: filepath.Join(t.TempDir(), "from")})
	pools, err := volume.NewPools(from, to)
	ok(t, err)
	sourceIn(t, from)
	return pools, from, to, reached, release
}

func cloneAcross(from *volume.Pool, s volume.Spec) volume.CloneSpec {
	c := cloneFrom(from, "v", s)
	c.From = from
	return c
}

// A pool that was closed has nothing open any more, also if another pool makes a copy of its volume:
// another process may let a pod write to that.
func TestCloneWhoseSourceIsClosed(t *testing.T) {
	pools, from, to, reached, release := twoPools(t, "clone.entry")
	s := cloneAcross(from, spec("c", gib))
	_, err := pools.Clone(to, s)
	is(t, err, volume.ErrCloning)
	<-reached
	j, _ := to.CloneJob("c")
	closed := make(chan error, 1)
	go func() { closed <- from.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("closed while a job reads from it: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	ok(t, <-closed)
	<-j.Ended
	if j, _ = to.CloneJob("c"); !errors.Is(j.Err, volume.ErrNotReady) {
		t.Errorf("the job ended with %v", j.Err)
	}
	purge(t, to)
	consistent(t, to)
}

// The disk of a pool is replaced after the copy was made, and before it is in place. What is staged on
// the other disk may be less: it is a copy of the disk, or one that lost what it had not committed.
func TestCloneOnADiskThatIsReplaced(t *testing.T) {
	stops := map[string]chan struct{}{"clone.sync": make(chan struct{}), "expand.record": make(chan struct{})}
	reached := make(chan string, 100)
	p := opened(t, volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), Step: func(step string) {
		if gate, stops := stops[step]; stops {
			reached <- step
			<-gate
		}
	}})
	sourceIn(t, p)
	purge(t, p)
	s := cloneOf(p, spec("c", 2*gib))
	_, err := p.Clone(s)
	is(t, err, volume.ErrCloning)
	<-reached
	j, _ := p.CloneJob("c")
	grown := make(chan error, 1)
	go func() { _, err := p.Expand("v", gib+1); grown <- err }()
	<-reached // it has the source, for which the job waits from here on
	close(stops["clone.sync"])
	time.Sleep(100 * time.Millisecond)
	ok(t, os.Rename(p.Path(), p.Path()+".old"))
	if out, err := exec.Command("cp", "-a", p.Path()+".old", p.Path()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range names(t, filepath.Join(p.Path(), staging)) {
		ok(t, os.RemoveAll(filepath.Join(p.Path(), staging, name, "a")))
	}
	close(stops["expand.record"])
	ok(t, <-grown)
	<-j.Ended
	if _, err := os.Stat(filepath.Join(p.Path(), "c", "a", "data")); err != nil && there(filepath.Join(p.Path(), "c")) {
		t.Error("a part of the copy is in place")
	}
	s.Source = cloneOf(p, spec("c", 2*gib)).Source
	c, err := awaited(p, s)
	if err != nil { // of the job
		is(t, err, volume.ErrNotReady)
		c, err = awaited(p, s)
	}
	ok(t, err)
	if !there(filepath.Join(c.Path, "a", "data")) {
		t.Error("the clone is not whole")
	}
	purge(t, p)
	consistent(t, p)
}
