package admission

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func send(h http.Handler, address string, size int) int {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.Repeat("x", size)))
	request.RemoteAddr = address
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer.Code
}

// One address can neither have the server read without end nor keep others from their answers.
func TestBounds(t *testing.T) {
	read := bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}))
	if got := send(read, "10.0.0.1:1", maxRequest); got != http.StatusOK {
		t.Errorf("a large request: %d", got)
	}
	if got := send(read, "10.0.0.1:1", maxRequest+1); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a request that is too large: %d", got)
	}
	refused := 0
	for range 10 * burst {
		if send(read, "10.0.0.2:1", 1) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 5*burst {
		t.Errorf("%d of %d requests of one address were refused", refused, 10*burst)
	}
	if got := send(read, "10.0.0.3:1", 1); got != http.StatusOK {
		t.Errorf("another address: %d", got)
	}
	for i := range 10 * hosts {
		send(read, string(rune('a'+i%26))+strings.Repeat("x", i), 1)
	}
	if len(read.rates) > hosts {
		t.Errorf("%d addresses are remembered", len(read.rates))
	}
}

// No more than a fixed number of requests is handled at one time, and the next ones are refused at
// once.
func TestBoundsAtOnce(t *testing.T) {
	begun, end := make(chan struct{}, atOnce), make(chan struct{})
	slow := bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-end }))
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() { send(slow, "10.0.0.1:1", 1) })
	}
	for range atOnce {
		<-begun
	}
	if got := send(slow, "10.0.0.2:1", 1); got != http.StatusTooManyRequests {
		t.Errorf("one more request: %d", got)
	}
	close(end)
	all.Wait()
	if got := send(slow, "10.0.0.2:1", 1); got != http.StatusOK {
		t.Errorf("a later request: %d", got)
	}
}

// The server has the bounds.
func TestServerIsBounded(t *testing.T) {
	s, err := Server("127.0.0.1:9443", fake.NewClientBuilder().Build(), client.ObjectKey{}, func(*tls.Config) {}, &Validator{})
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for range 10 * burst {
		refused = refused || send(s.(server).handler, "10.0.0.1:1", 1) == http.StatusTooManyRequests
	}
	if !refused {
		t.Errorf("%d requests of one address were all answered", 10*burst)
	}
}
