package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

// path is the path of requests, which agent.yaml of the operator has too.
const path = "/validate-hostpathprovisioner-kubevirt-io-v1beta1-hostpathprovisioner"

// Server returns what serves the decisions on the address, for a manager to run. Every operator does,
// also one that does not reconcile. Connections are bounded. Each handshake reads the certificate from
// the cache, so that another one is served without a restart. settings changes other TLS settings.
func Server(address string, cache client.Reader, certificate client.ObjectKey, settings func(*tls.Config),
	v *Validator) (manager.Runnable, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("webhook address: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("webhook address %q: the port is no number from 1 to 65535", address)
	}
	c := &tls.Config{} //nolint:gosec // settings has the oldest version
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		var secret corev1.Secret
		if err := cache.Get(hello.Context(), certificate, &secret); err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		found, err := pair(secret.Data)
		return &found, err
	}
	settings(c)
	mux := http.NewServeMux()
	mux.Handle(path, bounded(&admission.Webhook{Handler: v}))
	return server{address, c, mux}, nil
}

// server serves reviews in every operator.
type server struct {
	address string
	tls     *tls.Config
	handler http.Handler
}

// Start implements manager.Runnable.
func (s server) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("webhook address: %w", err)
	}
	return httpserver.Serve(ctx, tls.NewListener(l, s.tls), s.handler)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (server) NeedLeaderElection() bool { return false }

// Bounds of requests. API servers show no certificate by default, so anyone who reaches the port is
// answered. A request that is refused here is admitted by the API server (failurePolicy Ignore),
// and the operator then keeps what PVs use.
const (
	// maxRequest is far above a review with two resources that have all keys.
	maxRequest = 1 << 20
	// readFor is for how long a client may send its request.
	readFor = 5 * time.Second
	// atOnce is how many requests are handled at one time.
	atOnce = 16
	// perSecond and burst are the requests of an address; hosts is how many addresses are counted.
	perSecond, burst = 10, 50
	hosts            = 256
)

// bounds limits what clients can make the server do.
type bounds struct {
	next  http.Handler
	slots chan struct{}

	mu    sync.Mutex
	rates map[string]flowcontrol.RateLimiter
}

func bounded(next http.Handler) *bounds {
	return &bounds{next: next, slots: make(chan struct{}, atOnce), rates: map[string]flowcontrol.RateLimiter{}}
}

// ServeHTTP implements http.Handler.
func (b *bounds) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if !b.accept(request.RemoteAddr) {
		http.Error(w, "too many requests of this address", http.StatusTooManyRequests)
		return
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		http.Error(w, "too many requests at once", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readFor)) // not supported by the writers of tests
	request.Body = http.MaxBytesReader(w, request.Body, maxRequest)
	b.next.ServeHTTP(w, request)
}

// accept reports whether the address may send another request now. It counts anew for all once
// there are too many addresses.
func (b *bounds) accept(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rate := b.rates[host]
	if rate == nil {
		if len(b.rates) >= hosts {
			clear(b.rates)
		}
		rate = flowcontrol.NewTokenBucketRateLimiter(perSecond, burst)
		b.rates[host] = rate
	}
	return rate.TryAccept()
}
