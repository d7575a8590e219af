// Package sleep lets the loop of a controller wait for time, for whoever wakes it, and for its
// end, whichever comes first.
package sleep

import (
	"context"
	"time"
)

// For sleeps for d. It returns false if the context ended meanwhile.
func For(ctx context.Context, d time.Duration) bool { return OrWoken(ctx, d, nil) }

// OrWoken sleeps for d, or until Wake is called for the channel. It returns false if the
// context ended meanwhile.
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

// Wake wakes who sleeps at the channel, or will: the channel holds one value. Wake never
// blocks, and several calls wake once.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
