package bounded

import (
	"sync/atomic"
	"testing"
	"time"
)

// A call may look whether its caller's time is over in the moment in which a long function of the
// caller returns. It is not: the caller's time starts again with the return.
func TestCallbackEndsAsTheTimeIsUp(t *testing.T) {
	for range 1000 {
		c := newCall("mount", "the disk", time.Hour)
		c.began = c.began.Add(-2 * time.Hour)
		c.phase = outside // also before the function is called
		var looked atomic.Int64
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			_ = c.Callback(func() error {
				for looked.Load() < 5 {
				}
				return nil
			})
		}()
		for looking := true; looking; looked.Add(1) {
			c.leave()
			select {
			case <-returned:
				looking = false
			default:
			}
		}
		if c.left {
			t.Fatal("the caller has left")
		}
	}
}
