package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		sleep.Wake(wake)
		sleep.Wake(wake) // does not block
		begin := time.Now()
		if !sleep.OrWoken(t.Context(), time.Minute, wake) || time.Since(begin) != 0 {
			t.Error("OrWoken did not return at once after Wake")
		}
		if !sleep.OrWoken(t.Context(), time.Minute, wake) || time.Since(begin) != time.Minute {
			t.Error("two calls of Wake ended two sleeps")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if sleep.For(ctx, time.Hour) {
			t.Error("For returned true after its context ended")
		}
	})
}

// The clock goes on while a goroutine sleeps in its turn and others wait for theirs.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, begin := sleep.NewTurn(), time.Now()
		for range 3 {
			go func() {
				if turn.Take(t.Context()) {
					defer turn.Release()
					time.Sleep(time.Minute)
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if turn.Take(ctx) {
			t.Error("two have the turn")
		}
		time.Sleep(time.Hour)
		if !turn.Take(t.Context()) || time.Since(begin) != time.Hour+time.Second {
			t.Error("those that had the turn did not release it")
		}
	})
}

func TestDoubled(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{0: 3, 1: 3, 3: 6, 6: 10, 10: 10} {
		if got := sleep.Doubled(pause, 3, 10); got != want {
			t.Errorf("the pause after %d is %d; want %d", pause, got, want)
		}
	}
}

// The longer time counts. The second reading without a monotonic one is that of a machine that was suspended, or
// whose clock was set.
func TestElapsed(t *testing.T) {
	now := time.Now()
	for after, want := range map[time.Time]time.Duration{now: 0, now.Add(time.Minute): time.Minute,
		now.Round(0).Add(time.Hour): time.Hour, now.Round(0).Add(-time.Hour): time.Hour} {
		if got := sleep.Elapsed(now, after); got != want {
			t.Errorf("%v after %v: %v, want %v", after, now, got, want)
		}
	}
}
