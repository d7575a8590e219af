// Package sleep lets a controller's loop wait for a duration, a signal, or the end of its context,
// whichever comes first.
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

// Wake ends the present or next sleep on the channel, which the caller made with a capacity of one.
// It never blocks. Several calls before a sleep end one sleep.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
