package suite

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// gate passes an operator's requests on to the API server. It holds a write to one of the paths
// back, or its answer, and reports it. Leases and events are never held.
type gate struct {
	scene    *harness.Scene
	operator *harness.Operator
	proxy    *httputil.ReverseProxy
	held     chan string // receives "method path" of a write that is held
	paths    []string    // parts of the paths of writes that are held

	mu     sync.Mutex
	before bool // hold the request; otherwise hold the answer
	skip   int  // how many writes pass before one is held
	open   bool // hold nothing
	coming int  // how many writes are held and not yet reported
}

// newGate kills the operator, and has its next start reach the API server through a gate, which
// holds writes whose path has one of the parts.
func newGate(s *harness.Scene, operator *harness.Operator, paths ...string) *gate {
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
	g := &gate{scene: s, operator: operator, proxy: httputil.NewSingleHostReverseProxy(to), held: make(chan string, 100), paths: paths}
	g.proxy.Transport, g.proxy.FlushInterval = transport, -1
	server := httptest.NewTLSServer(g) // clients send a token over TLS alone
	s.Cleanup(func() {
		_ = server.Listener.Close() // Close would await the operator, which connects again
		server.CloseClientConnections()
	})
	operator.Kill()
	operator.Through(server.URL)
	return g
}

// killedUntil kills the operator at a write, before and after the API server gets it by turns,
// until done returns nil. It returns the writes. Skip returns how many writes pass first; nil holds
// every write.
func (g *gate) killedUntil(done func() error, skip func() int) (kills []string) {
	g.scene.Helper()
	for before := true; ; before = !before {
		passed := 0
		if skip != nil {
			passed = skip()
		}
		g.next(before, passed)
		g.operator.Start()
		what, err := g.await(done)
		g.operator.Kill()
		switch {
		case err != nil:
			g.scene.Fatalf("after kills at %q: no further write, %v", kills, err)
		case what == "":
			g.scene.Logf("killed at %q", kills)
			return kills
		}
		kills = append(kills, what)
	}
}

// await returns a write that is held, or "" once done returns nil. After three minutes without
// either it returns done's error.
func (g *gate) await(done func() error) (held string, err error) {
	for end := time.Now().Add(3 * time.Minute); ; { // the machine is busy with other tests
		select {
		case held = <-g.held:
			return held, nil
		case <-time.After(200 * time.Millisecond):
			err = done()
			if err == nil && g.reports() {
				return <-g.held, nil // the write that did it, whose answer is held
			}
			if err == nil || time.Now().After(end) {
				return "", err
			}
		}
	}
}

// reports reports whether a write is held that await did not return.
func (g *gate) reports() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.coming > 0 || len(g.held) > 0
}

// next has the gate hold a write before or after the API server gets it, once it has passed that
// many. It forgets what the operator that was killed wrote at the same moment as the write it was
// killed at.
func (g *gate) next(before bool, skip int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.skip = before, skip
	for len(g.held) > 0 {
		<-g.held
	}
}

// opens has the gate hold nothing any more, and starts the operator.
func (g *gate) opens() {
	g.scene.Helper()
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	g.operator.Start()
}

// holds reports whether a request is held, and whether before the API server gets it.
func (g *gate) holds(r *http.Request) (held, before bool) {
	in := func(part string) bool { return strings.Contains(r.URL.Path, part) }
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || r.Method == http.MethodGet || in("/leases") || in("/events") || !slices.ContainsFunc(g.paths, in) {
		return false, false
	}
	if g.skip--; g.skip < 0 {
		g.coming++
	}
	return g.skip < 0, g.before
}

// ServeHTTP implements http.Handler. A client whose write is held gets no answer.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	held, before := g.holds(r)
	switch {
	case !held:
		g.proxy.ServeHTTP(w, r)
		return
	case !before:
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	g.held <- r.Method + " " + r.URL.Path
	g.mu.Lock()
	g.coming--
	g.mu.Unlock()
	<-r.Context().Done() // the client is killed
}
