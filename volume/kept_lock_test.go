package volume_test

import (
	"sync/atomic"
	"testing"
	"time"
)

// While a disk hangs on which the directory of kept volumes is made, other calls do not wait for it.
func TestNoLockWhileKeptIsMade(t *testing.T) {
	s := newShelf(t, time.Hour)
	reached, release := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	s.c.Step = func(name string) {
		if name == "open.kept" && begun.CompareAndSwap(false, true) {
			close(reached)
			<-release
		}
	}
	s.open()
	s.filled("v", "default", mib)
	s.filled("w", "default", mib)
	first := make(chan error, 1)
	go func() { first <- s.Delete("v") }()
	select {
	case <-reached:
	case err := <-first:
		t.Fatalf("deleted without the step: %v", err)
	}
	others := make(chan error, 2)
	go func() {
		_, err := s.Space()
		others <- err
	}()
	go func() { others <- s.Delete("w") }()
	for range 2 {
		select {
		case err := <-others:
			ok(t, err)
		case <-time.After(2 * time.Second):
			t.Error("a call waits for the disk on which another one makes the directory")
		}
	}
	close(release)
	ok(t, <-first)
	s.keeps("v", "w")
}
