// Package sleep lets a goroutine of a controller wait for a duration, a signal or its turn, or for the
// end of its context if that is earlier. It also measures how long a process did not run.
package sleep

import (
	"context"
	"time"
)

// For sleeps for d. It returns false if the context ended before that.
func For(ctx context.Context, d time.Duration) bool { return OrWoken(ctx, d, nil) }

// OrWoken sleeps for d, or until Wake is called on the channel. It returns false if the context
// ended before that.
func OrWoken(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-t.C:
	}
	return true
}

// Doubled returns the pause that comes after one of length pause: twice as long, at least first, which is
// also the one after 0, and at most longest.
func Doubled(pause, first, longest time.Duration) time.Duration {
	return min(max(2*pause, first), longest)
}

// Wake ends the present or next sleep on the channel, which the caller made with a capacity of one.
// It never blocks. Several calls before a sleep end one sleep.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Turn is a lock that its owner may hold over a request or a sleep. NewTurn makes it. It is a channel
// because a goroutine that waits for a sync.Mutex does not stop when its context ends, and in a
// bubble of testing/synctest it stops the clock, so that the sleep of the owner never ends.
type Turn chan struct{}

// NewTurn returns a Turn that no goroutine has.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits for the turn. It returns false if the context ended before that; otherwise the caller
// calls Release.
func (t Turn) Take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Release gives the turn to the next goroutine that waits for it.
func (t Turn) Release() { <-t }

// Elapsed returns the time between two readings by the clock that saw more of it. The monotonic one
// stands still while the machine is suspended; the other one can be set.
func Elapsed(before, after time.Time) time.Duration {
	return max(after.Sub(before), after.Round(0).Sub(before.Round(0)).Abs())
}
