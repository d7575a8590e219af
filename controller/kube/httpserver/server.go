package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// timeouts are how long a client may take.
type timeouts struct {
	header time.Duration // also for the TLS handshake
	read   time.Duration
	write  time.Duration
	idle   time.Duration
}

// usual are the timeouts of all addresses. A scrape takes well under a second; profiles have a
// deadline of their own.
var usual = timeouts{header: 5 * time.Second, read: 10 * time.Second, write: 15 * time.Second, idle: 10 * time.Second}

const (
	maxHeader = 32 << 10 // bytes; a token has up to a few KiB
	// maxScrapes is the number of requests for metrics that are served at once. Others get 503.
	maxScrapes = 8
	// maxProfile is the longest profile.
	maxProfile = 10 * time.Minute
)

// Check is one line of /readyz and /status: a name, and a function that returns nil or why it is
// not ready.
type Check struct {
	Name string
	Err  func() error
	// Note returns what people have to know although the check is ready, "" if there is nothing. It
	// may be nil.
	Note func() string
	// Probed is set for what the kubelet's probe asks, at /readyz/agent: the process and what it needs
	// of the cluster, and no disk. A node that is not ready holds up the rollout of all of them.
	Probed bool
}

// Handler serves /healthz (the process lives), /readyz (200 if all checks return nil, or 503 with
// their errors), /readyz/agent (the same of the probed checks), /status (200 with the text of
// /readyz, or as JSON) and, unless the gatherer is nil, /metrics. k8s.io/apiserver has such a
// mux too, with the whole of an API server around it.
func Handler(gatherer prometheus.Gatherer, checks []Check) http.Handler {
	mux, all := http.NewServeMux(), &shared{checks: checks}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, all.run()) })
	probed := &shared{checks: slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return !c.Probed })}
	mux.HandleFunc("GET /readyz/agent", func(w http.ResponseWriter, _ *http.Request) { readyz(w, probed.run()) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { status(w, r, all.run) })
	if gatherer != nil {
		handleMetrics(mux, gatherer)
	}
	return mux
}

// MetricsHandler serves /metrics and nothing else.
func MetricsHandler(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	handleMetrics(mux, gatherer)
	return mux
}

// ProfileHandler serves /debug/pprof/, for go tool pprof, and nothing else. Profiles can show
// secrets, because they show what the process has in memory.
func ProfileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index) // and every profile that has a name
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxProfile)) // not of a recorder
		// pprof refuses a profile that takes longer than the server's own deadline.
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey,
			&http.Server{WriteTimeout: maxProfile})))
	})
}

func handleMetrics(mux *http.ServeMux, gatherer prometheus.Gatherer) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
}

// Serve serves the handler on the listener until the context ends, and then closes the listener.
// It aborts requests in flight: they only read.
//
// Any pod may be able to reach the address. So clients that are slow, idle or do not read are
// given up, and the number of connections is bounded, but not by one client for another.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return usual.serve(ctx, l, h)
}

func (t timeouts) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ConnState: new(connections).changed, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: t.header, ReadTimeout: t.read, WriteTimeout: t.write, IdleTimeout: t.idle}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
