package bounded

import (
	"testing"
	"testing/synctest"
	"time"
)

// Work in the background waits for a call on the disk, but not for ever for a call that hangs.
func TestYield(t *testing.T) {
	for _, row := range []struct {
		name       string
		call, want time.Duration // how long the call is on the disk, and how long Yield waits
	}{{"no call", 0, 0}, {"a call, and the next one is expected", 30 * time.Millisecond, 30*time.Millisecond + untilNext}, {"one that hangs", time.Second, 100 * time.Millisecond}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewCalls("the disk", DefaultPatience)
				if row.call > 0 {
					go func() {
						_ = s.Do("create", func(*Call) error { time.Sleep(row.call); return nil })
					}()
					synctest.Wait()
				}
				begin := time.Now()
				if err := s.Yield(t.Context(), 100*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				waited := time.Since(begin)
				time.Sleep(2 * row.call) // until the call has returned
				if waited < row.want || waited > row.want+2*time.Millisecond {
					t.Errorf("waited %s, want %s", waited, row.want)
				}
			})
		})
	}
}
