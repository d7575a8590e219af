package bounded

import (
	"context"
	"time"
)

// Sleep waits for the duration. If the context ends, it returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Paced returns pace, each step of which is progress of the call. A nil pace takes no time.
func (c *Call) Paced(pace func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c.Progress()
		if pace == nil {
			return ctx.Err()
		}
		return pace(ctx)
	}
}
