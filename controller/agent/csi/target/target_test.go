package target

import (
	"testing"
	"time"
)

// A call that hangs keeps no call on another target, and calls on one target wait
// for each other.
func TestLocks(t *testing.T) {
	var all locks
	if _, err := all.lock("/hangs"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	unlock, err := all.lock("/b")
	if err != nil || time.Since(begin) > time.Second {
		t.Fatalf("another target: %v after %s", err, time.Since(begin))
	}
	got := make(chan func(), 1)
	go func() {
		unlock, err := all.lock("/b")
		if err != nil {
			t.Error(err)
		}
		got <- unlock
	}()
	select {
	case <-got:
		t.Fatal("two calls have one target")
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	(<-got)()
	if len(all.held) != 1 {
		t.Errorf("%d targets are held, want the one that hangs", len(all.held))
	}
}
