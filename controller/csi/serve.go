package csi

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// stopWithin is how long calls under way may take once the driver shall stop.
// None of them is long; whoever called tries again with the next process.
const stopWithin = time.Second

// Serve answers calls on the socket until the context ends, and closes it
// then. Calls under way have a second to end. A socket that fails is the
// error; an ended context is none. Until then it also deletes inline volumes
// whose pods are gone.
func (s *Server) Serve(ctx context.Context, l *Socket) error {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept(ctx)))
	csi.RegisterIdentityServer(g, s)
	csi.RegisterControllerServer(g, s)
	csi.RegisterNodeServer(g, s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.collect(ctx)
	return serve(ctx, l, g)
}

func serve(ctx context.Context, l *Socket, g *grpc.Server) error {
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
