package target

import (
	"testing"
	"time"
)

// A call that hangs keeps no call on another target, and calls on one target wait
// for each other.
func TestLocks(t *testing.T) {
	var all Targets
	lock := func(path string) (unlock func()) {
		unlock, ok := all.locks.LockWithin(lockTimeout, path)
		if !ok {
			t.Errorf("%s: no lock within %s", path, lockTimeout)
			return func() {}
		}
		return unlock
	}
	lock("/hangs")
	begin := time.Now()
	unlock := lock("/b")
	if time.Since(begin) >= lockTimeout {
		t.Fatalf("another target: after %s", time.Since(begin))
	}
	got := make(chan func(), 1)
	go func() { got <- lock("/b") }()
	select {
	case <-got:
		t.Fatal("two calls have one target")
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	(<-got)()
}
