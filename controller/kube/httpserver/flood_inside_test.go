package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// serving serves the handler until the test ends, and returns its address.
func (t timeouts) serving(test *testing.T, h http.Handler) string {
	test.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		test.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- t.serve(test.Context(), l, h) }()
	test.Cleanup(func() {
		if err := <-done; err != nil {
			test.Error(err)
		}
	})
	return l.Addr().String()
}

// dial connects from a loopback address, and sends a request unless the path is "".
func dial(t *testing.T, from, addr, path string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if path != "" {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	}
	return c
}

// answer reads the status of the answer.
func answer(t *testing.T, c net.Conn) (int, error) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// However many connections a client opens, the kubelet's probes are answered, and the number of
// connections is bounded.
func TestProbesAreServedInAFlood(t *testing.T) {
	addr := usual.serving(t, Handler(nil, nil))
	var flood []net.Conn
	for i := range maxConnections + 100 {
		flood = append(flood, dial(t, "127.0.0.2", addr, "")) // which never sends a request
		if i%50 != 0 {
			continue
		}
		if status, err := answer(t, dial(t, "127.0.0.3", addr, "/healthz")); status != http.StatusOK {
			t.Errorf("probe beside %d connections: %d, %v", i, status, err)
		}
	}
	closed := 0
	for _, c := range flood {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed < 100 {
		t.Errorf("%d of %d connections were closed, want those above %d", closed, len(flood), maxConnections)
	}
}

// A client that does nothing on a connection, or does not read, is given up.
func TestClientsAreGivenUp(t *testing.T) {
	short := timeouts{header: time.Second, read: time.Second, write: time.Second, idle: time.Second}
	ended := make(chan error, 1)
	mux := http.NewServeMux()
	mux.Handle("/healthz", Handler(nil, nil))
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.CopyN(w, zeros{}, 1<<30)
		ended <- err
	})
	addr := short.serving(t, mux)
	silent, idle := dial(t, "127.0.0.1", addr, ""), dial(t, "127.0.0.1", addr, "/healthz")
	dial(t, "127.0.0.1", addr, "/large")
	if status, err := answer(t, idle); status != http.StatusOK {
		t.Errorf("before: %d, %v", status, err)
	}
	for name, c := range map[string]net.Conn{"silent": silent, "idle": idle} {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%s: the connection stays: %v", name, err)
		}
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a client read everything")
		}
	case <-time.After(10 * time.Second):
		t.Error("an answer that no client reads is never given up")
	}
	if usual.header == 0 || usual.read == 0 || usual.write == 0 || usual.idle == 0 {
		t.Errorf("no limit of %+v", usual)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Scrapes are bounded, and keep no probe from its answer.
func TestScrapesAreBounded(t *testing.T) {
	begun, release, registry := make(chan struct{}, 100), make(chan struct{}), prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		begun <- struct{}{}
		<-release
		return 1
	}))
	h := Handler(registry, nil)
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	var all sync.WaitGroup
	for range maxScrapes {
		all.Go(func() {
			if code := get("/metrics"); code != http.StatusOK {
				t.Errorf("a scrape: %d", code)
			}
		})
	}
	for range maxScrapes {
		<-begun
	}
	more := make(chan int, 1)
	go func() { more <- get("/metrics") }()
	select {
	case code := <-more:
		if code != http.StatusServiceUnavailable {
			t.Errorf("one scrape more: %d", code)
		}
	case <-begun:
		t.Error("one scrape more was begun")
	}
	if code := get("/healthz"); code != http.StatusOK {
		t.Errorf("a probe: %d", code)
	}
	close(release)
	all.Wait()
}

// Many clients of /readyz run the checks once at a time, so that claims find a place at the disk.
// Each gets the results of a run that began after its request.
func TestChecksAreShared(t *testing.T) {
	var at, most, runs atomic.Int32
	var state, stale atomic.Int32
	h := Handler(nil, []Check{{Name: "disk", Err: func() error {
		most.Store(max(most.Load(), at.Add(1)))
		defer at.Add(-1)
		runs.Add(1)
		seen := state.Load()
		time.Sleep(10 * time.Millisecond)
		return fmt.Errorf("%d", seen)
	}}})
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			before := state.Add(1)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			var seen int32
			if _, err := fmt.Sscanf(w.Body.String(), "[-] disk: %d", &seen); err != nil || seen < before {
				stale.Add(1)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 || runs.Load() > 20 || stale.Load() > 0 {
		t.Errorf("200 clients: %d runs, %d at once, %d answers older than their requests", runs.Load(), most.Load(), stale.Load())
	}
}

// Invented tokens cost the API server few requests, and keep no known client from the metrics.
func TestInventedTokens(t *testing.T) {
	var reviews atomic.Int32
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		reviews.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "another"
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	r := newReviewer(client)
	status := func(from, token string) int {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.RemoteAddr = from + ":1234"
		code, err := r.status(request, token)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if code := status("10.0.0.1", "prometheus"); code != http.StatusOK {
		t.Errorf("a good token: %d", code)
	}
	for i := range 3000 {
		if code := status("10.0.0.2", fmt.Sprint(i)); code != http.StatusUnauthorized && code != http.StatusTooManyRequests {
			t.Fatalf("an invented token: %d", code)
		}
	}
	if n := reviews.Load(); n > 20 {
		t.Errorf("3000 invented tokens of one client caused %d reviews", n)
	}
	if code := status("10.0.0.1", "another"); code != http.StatusOK {
		t.Errorf("a good token of another client meanwhile: %d", code)
	}
	for i := range 3000 {
		status(fmt.Sprintf("10.1.%d.%d", i/250, i%250), fmt.Sprint("many ", i))
	}
	if n := reviews.Load(); n > 60 {
		t.Errorf("3000 invented tokens of as many clients caused %d reviews", n)
	}
	for _, age := range []time.Duration{0, 2 * cacheFor} { // the answer is cached, and was
		for _, key := range []string{"prometheus", "another"} {
			r.accepted.Add(keyOf("/metrics", key), time.Now().Add(cacheFor-age))
			if code := status("10.0.0.2", key); code != http.StatusOK {
				t.Errorf("a token that was accepted %s ago, in the flood: %d", age, code)
			}
		}
	}
}
