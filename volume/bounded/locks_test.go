package bounded

import (
	"testing"
	"time"
)

func TestNameLocks(t *testing.T) {
	var l NameLocks
	lock := l.LockUnbounded
	unlock := lock("a")
	lock("b")()
	entered := make(chan bool)
	go func() {
		defer lock("a")()
		entered <- true
	}()
	select {
	case <-entered:
		t.Fatal("two hold one name")
	default:
	}
	unlock()
	<-entered
	defer lock("a")() // waits for the goroutine's unlock
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) != 1 {
		t.Errorf("%d names are kept", len(l.held))
	}
}

// LockWithin gives up after the patience, and then keeps no name.
func TestLockWithin(t *testing.T) {
	var l NameLocks
	unlock, ok := l.LockWithin(time.Minute, "a")
	if !ok {
		t.Fatal("a free name is not locked")
	}
	begin := time.Now()
	if _, ok := l.LockWithin(20*time.Millisecond, "a"); ok || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("a name that is held: %v after %s", ok, time.Since(begin))
	}
	unlock()
	if len(l.held) != 0 {
		t.Errorf("%d names are kept", len(l.held))
	}
	if unlock, ok = l.LockWithin(time.Minute, "a"); !ok {
		t.Fatal("a name that was given back is not locked")
	}
	unlock()
}
