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

// Check is one line of /readyz: a name, and nil or why not.
type Check struct {
	Name string
	Err  func() error
}

// Handler answers /healthz (the process lives), /readyz (every check is fine,
// or 503 and why not) and, unless the gatherer is nil, /metrics.
func Handler(gatherer prometheus.Gatherer, checks []Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, checks) })
	if gatherer != nil {
		handleMetrics(mux, gatherer)
	}
	return mux
}

// MetricsHandler answers /metrics and nothing else.
func MetricsHandler(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	handleMetrics(mux, gatherer)
	return mux
}

// ProfileHandler answers /debug/pprof/, for go tool pprof, and nothing else.
// Profiles show what the process holds in memory.
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

func readyz(w http.ResponseWriter, checks []Check) {
	status, text := http.StatusOK, ""
	for _, c := range checks {
		if err := c.Err(); err != nil {
			status = http.StatusServiceUnavailable
			text += fmt.Sprintf("[-] %s: %v\n", c.Name, err)
		} else {
			text += fmt.Sprintf("[+] %s ok\n", c.Name)
		}
	}
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

// Serve answers on the listener until the context ends, and closes it then.
// Requests in flight are cut off: nothing here is worth waiting for.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
