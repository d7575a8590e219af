package heap

import (
	"runtime"
	"testing"
)

func TestPercent(t *testing.T) {
	for _, row := range []struct {
		live      uint64
		now, want int
	}{
		{3 << 20, usual, usual},
		{large - 1, usual, usual},
		{large, usual, saving},
		{large - 1, saving, saving},
		{large / 2, saving, saving},
		{large/2 - 1, saving, usual},
		{0, usual, usual}, // the runtime does not know it
	} {
		if got := percent(row.live, row.now); got != row.want {
			t.Errorf("%d bytes live, GOGC %d in force: %d, want %d", row.live, row.now, got, row.want)
		}
	}
}

// The runtime knows how much is live.
func TestLive(t *testing.T) {
	held := make([]byte, 32<<20)
	runtime.GC()
	if got := live(); got < 32<<20 {
		t.Errorf("%d bytes are live, of which this test holds %d", got, len(held))
	}
	runtime.KeepAlive(held)
}
