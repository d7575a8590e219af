package csi

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
)

// intercept returns the interceptor of all calls. They log with the logger of base.
func (s *Server) intercept(base context.Context) grpc.UnaryServerInterceptor {
	log := klog.FromContext(base)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		method, began := path.Base(info.FullMethod), time.Now()
		log := log.WithValues("method", method)
		log.V(4).Info("Called", "request", protosanitizer.StripSecrets(req))
		answer, err := bounded(klog.NewContext(ctx, log), req, handler)
		code := codeOf(method, err)
		took := time.Since(began)
		s.seconds.WithLabelValues(method, code.String()).Observe(took.Seconds())
		if err != nil {
			log.Error(err, "Call failed", "code", code, "took", took)
			return nil, status.Error(code, text(err))
		}
		log.V(4).Info("Answered", "response", protosanitizer.StripSecrets(answer), "took", took)
		return answer, nil
	}
}

// callTimeout is how long a call may take. A pool whose disk does not respond returns an
// error sooner; other system calls, such as a mount, can also hang.
const callTimeout = 30 * time.Second

// bounded calls the handler and waits for it until the caller stops waiting or callTimeout
// has passed. The handler then continues, and keeps its target locked.
func bounded(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	type result struct {
		answer any
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := kubelet.Guard(ctx, req, handler)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the call is still running: %w; a disk may not respond", ctx.Err())
	}
}
