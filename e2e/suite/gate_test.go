package suite

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// gate passes requests on to the API server. It holds a write to one of the paths back, or its answer, and reports it.
type gate struct {
	proxy *httputil.ReverseProxy
	held  chan string // receives "method path" of a write that is held
	paths []string    // parts of the paths of writes that are held

	mu     sync.Mutex
	before bool // hold the request; otherwise hold the answer
	open   bool // hold nothing
}

// newGate returns a gate to the scene's API server, and its address. It holds writes whose path has one of the parts.
func newGate(s *harness.Scene, paths ...string) (*gate, string) {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Plane.Kubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig}) // the token is the operator's
	if err != nil {
		s.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		s.Fatal(err)
	}
	g := &gate{proxy: httputil.NewSingleHostReverseProxy(to), held: make(chan string, 100), paths: paths}
	g.proxy.Transport, g.proxy.FlushInterval = transport, -1
	server := httptest.NewTLSServer(g) // clients send a token over TLS alone
	s.Cleanup(func() {
		_ = server.Listener.Close() // Close would await the operator, which connects again
		server.CloseClientConnections()
	})
	return g, server.URL
}

// next has the gate hold the next write before or after the API server gets it.
func (g *gate) next(before bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = before
}

// opens has the gate hold nothing any more.
func (g *gate) opens() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}

// ServeHTTP implements http.Handler. A client whose write is held gets no answer.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	g.mu.Lock()
	before, holds := g.before, !g.open && r.Method != http.MethodGet &&
		slices.ContainsFunc(g.paths, func(part string) bool { return strings.Contains(r.URL.Path, part) })
	g.mu.Unlock()
	switch {
	case !holds:
		g.proxy.ServeHTTP(w, r)
		return
	case !before:
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	g.held <- what
	<-r.Context().Done() // the client is killed
}
