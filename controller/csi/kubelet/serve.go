// Package kubelet is how the kubelet reaches the CSI driver: the sockets, which are made again if
// somebody removes them, and the registration of the driver with the kubelet.
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

// stopWithin is how long calls under way may take once the driver shall stop.
// None of them is long; whoever called tries again with the next process.
const stopWithin = time.Second

// Serve serves g on the socket until the context ends, and closes the socket then. Calls under
// way have a second to end.
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
		case <-time.After(stopWithin):
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

// Guard calls the handler. A panic of it becomes an error: one request must
// not take down the volumes of all others.
func Guard(ctx context.Context, req any, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			klog.FromContext(ctx).Error(nil, "Panic", "cause", cause, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, fmt.Sprintf("panic: %v; the log has the stack", cause))
		}
	}()
	return handler(ctx, req)
}
