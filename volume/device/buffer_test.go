package device

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A pool has no more buffers than its bound; take ends with its context while it waits for one.
func TestPool(t *testing.T) {
	p := newPool(2)
	take := func(ctx context.Context) buffer {
		t.Helper()
		b, err := p.take(ctx)
		if err != nil || int64(len(b)) != bufferBytes {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		return b
	}
	one, two := take(t.Context()), take(t.Context())
	if &one[0] == &two[0] {
		t.Error("one buffer was given out twice")
	}
	why := errors.New("the device is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if b, err := p.take(ctx); !errors.Is(err, why) {
		t.Errorf("a third buffer of %d bytes, %v", len(b), err)
	}
	time.AfterFunc(10*time.Millisecond, func() { p.give(two) })
	if three := take(t.Context()); &three[0] != &two[0] {
		t.Error("a buffer was made, and one was idle")
	}
}
