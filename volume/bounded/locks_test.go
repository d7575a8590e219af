package bounded

import "testing"

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
