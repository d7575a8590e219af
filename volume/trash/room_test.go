package trash

import (
	"testing"
	"time"
)

// What is removed is offered until it is free, or did not become free within a minute; then it is not
// offered for ten minutes.
func TestRoomExpects(t *testing.T) {
	var clock time.Duration
	r := NewRoom(func() time.Duration { return clock })
	offered := func(kept, free, want int64) {
		t.Helper()
		if got := r.Offered(kept, free); got != want {
			t.Errorf("after %s, with %d kept and %d free: %d are offered, want %d", clock, kept, free, got, want)
		}
	}
	offered(100, 10, 100)
	if r.Settles() {
		t.Error("nothing was removed")
	}
	r.Leaves("a", 40, 10)
	r.Leaves("b", 20, 10)
	offered(40, 10, 100)
	r.Left([]string{"a", "a.json", "b", "b.json"})
	clock += time.Hour // many files
	offered(40, 30, 80)
	r.Left([]string{"b.json"})
	offered(40, 30, 80) // in the background
	clock += time.Minute - 1
	offered(40, 55, 55)
	if !r.Settles() {
		t.Error("it is free for good")
	}
	clock++
	if r.Settles() {
		t.Error("nothing comes any more")
	}
	offered(40, 55, 25) // 15 are missing
	clock += 10*time.Minute - 1
	offered(40, 55, 25)
	clock++
	offered(40, 55, 40)

	r.Leaves("c", 40, 55)
	r.Left(nil)
	offered(0, 95, 0)
	clock += time.Minute
	offered(100, 95, 100)
}

// A volume asks once in ten minutes, unless it was served.
func TestRoomAsks(t *testing.T) {
	var clock time.Duration
	r := NewRoom(func() time.Duration { return clock })
	ask := func(volume string, want bool) {
		t.Helper()
		if got := r.Ask(volume, Need{Bytes: 5, Except: "id-" + volume}, 0); got != want {
			t.Errorf("after %s: %v", clock, got)
		}
	}
	asked := func(want int64) {
		t.Helper()
		if got, except := r.Asked(); got != want || want > 0 && !except["id-v"] {
			t.Errorf("after %s: asked for %d, %v; want %d", clock, got, except, want)
		}
	}
	ask("v", true)
	ask("v", true)
	ask("w", true)
	<-r.Wanted()
	select {
	case <-r.Wanted():
		t.Error("two purges")
	default:
	}
	asked(10)
	asked(0)
	ask("v", false)
	clock += 10*time.Minute - 1
	ask("v", false)
	clock++
	ask("v", true)
	asked(5)
	r.Served("v")
	ask("v", true)
	asked(5)
	r.Leaves("x", 3, 0)
	ask("v", true) // it comes
	asked(0)
}
