package admission

import (
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

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
	// perSecond and burst are the requests of one address; hosts is for how many addresses they are
	// counted.
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
