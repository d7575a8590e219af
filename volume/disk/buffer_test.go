package disk

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
	time.AfterFunc(10*time.Millisecond, func() { p.give(two); (&turn{pool: p}).end() })
	if three := take(t.Context()); &three[0] != &two[0] {
		t.Error("a buffer was made, and one was idle")
	}
}

// Disks that hang give their turns to others, up to a bound. What they had is given back once, when
// their reads end.
func TestPoolOfDisksThatHang(t *testing.T) {
	p := newPool(2)
	p.hung = make(chan struct{}, 3)
	var turns []*turn
	var buffers []buffer
	for range 3 + 2 {
		b, err := p.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := &turn{pool: p}
		one.hang()
		turns, buffers = append(turns, one), append(buffers, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.take(ctx); err == nil {
		t.Error("more buffers than the bounds")
	}
	for i, one := range turns {
		p.give(buffers[i])
		one.end()
		one.hang() // its timer fired as the read ended
	}
	if len(p.turns) != 0 || len(p.hung) != 0 {
		t.Errorf("%d turns and %d of disks that hang are not given back", len(p.turns), len(p.hung))
	}
}
