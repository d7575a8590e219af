package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"kubevirt.io/hostpath-provisioner/controller/csi/kubelet"
)

// Serve answers calls on the socket until the context ends, and closes it
// then. Calls under way have a second to end. A socket that fails is the
// error; an ended context is none. Until then it also deletes inline volumes
// whose pods are gone.
func (s *Server) Serve(ctx context.Context, l *kubelet.Socket) error {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept(ctx)))
	csi.RegisterIdentityServer(g, s)
	csi.RegisterControllerServer(g, s)
	csi.RegisterNodeServer(g, s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.inline.Collect(ctx)
	return kubelet.Serve(ctx, l, g)
}
