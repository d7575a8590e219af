// Package kubelet serves the sockets by which the kubelet reaches the CSI driver, and registers the
// driver with the kubelet. A socket whose file is removed is made again.
package kubelet

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

// stopTimeout is how long calls in flight may take when the driver stops. The caller
// repeats an aborted call with the next process.
const stopTimeout = time.Second

// Serve serves g on the socket until the context ends, and then closes the socket. Calls in flight
// have a second to end.
func Serve(ctx context.Context, l *Socket, g *grpc.Server) error {
	keeping, enough := context.WithCancel(ctx)
	defer enough()
	go l.keep(keeping)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			g.GracefulStop() // which waits for calls also after Stop
		}()
		select {
		case <-stopped:
		case <-time.After(stopTimeout):
			g.Stop()
		}
	})
	err := g.Serve(l)
	if stop() {
		g.Stop()
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}

// Guard calls the handler. It turns a panic of the handler into an error, so that one
// request does not end the process.
func Guard(ctx context.Context, req any, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			klog.FromContext(ctx).Error(nil, "Panic", "cause", cause, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, fmt.Sprintf("panic: %v; the log has the stack", cause))
		}
	}()
	return handler(ctx, req)
}
