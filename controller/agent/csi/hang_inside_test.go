package csi

import (
	"context"
	"errors"
	"testing"
)

// A handler that hangs does not keep a caller that has gone.
func TestHandlerHangs(t *testing.T) {
	release, called := make(chan struct{}), make(chan struct{})
	defer close(release)
	hang := func(context.Context, any) (any, error) {
		close(called)
		<-release
		return nil, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-called; cancel() }()
	if _, err := bounded(ctx, nil, hang); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the caller has gone", err)
	}
}
