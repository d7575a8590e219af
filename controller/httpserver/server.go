package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one line of /readyz and /status: a name, and a function that returns nil or why it is not ready.
type Check struct {
	Name string
	Err  func() error
}

// Handler serves /healthz (the process lives), /readyz (200 if all checks return nil, or 503 with
// their errors), /status (200 with the text of /readyz, or as JSON) and, unless the gatherer is nil,
// /metrics. k8s.io/apiserver has such a mux too, with the whole of an API server around it.
func Handler(gatherer prometheus.Gatherer, checks []Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, checks) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { status(w, r, checks) })
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
	return mux
}

func handleMetrics(mux *http.ServeMux, gatherer prometheus.Gatherer) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
}

// Serve serves the handler on the listener until the context ends, and then closes the listener.
// It aborts requests in flight: they only read.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
