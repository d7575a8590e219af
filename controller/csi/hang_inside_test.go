package csi

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A handler that hangs keeps nobody who does not wait for it, and no call on another target.
func TestHandlerHangs(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var all locks
	locked := make(chan struct{})
	hang := func(context.Context, any) (any, error) {
		unlock, err := all.lock("/a")
		if err != nil {
			return nil, err
		}
		defer unlock()
		close(locked)
		<-release
		return nil, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-locked; cancel() }()
	if _, err := bounded(ctx, nil, hang); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the caller has gone", err)
	}
	begin := time.Now()
	unlock, err := all.lock("/b")
	if err != nil || time.Since(begin) > time.Second {
		t.Fatalf("another target: %v after %s", err, time.Since(begin))
	}
	unlock()
	waited := make(chan func(), 1)
	go func() {
		unlock, err := all.lock("/b")
		if err != nil {
			t.Error(err)
		}
		waited <- unlock
	}()
	(<-waited)()
	if len(all.held) != 1 {
		t.Errorf("%d targets are held, want the one that hangs", len(all.held))
	}
}
