package httpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestEndpoints(t *testing.T) {
	var broken error
	note := ""
	h := httpserver.Handler(prometheus.NewRegistry(), []httpserver.Check{
		{Name: "api", Err: func() error { return nil }, Note: func() string { return note }, Probed: true},
		{Name: "pool /data", Err: func() error { return broken }},
	})
	if code, body := get(t, h, "/readyz"); code != http.StatusOK || !strings.Contains(body, "[+] pool /data ok") {
		t.Errorf("ready: %d %q", code, body)
	}
	broken = errors.New("its disk is not mounted")
	code, body := get(t, h, "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "[-] pool /data: its disk is not mounted") ||
		!strings.Contains(body, "[+] api ok") {
		t.Errorf("not ready: %d %q", code, body)
	}
	if code, body := get(t, h, "/readyz/agent"); code != http.StatusOK || body != "[+] api ok\n" {
		t.Errorf("the probe asks a disk: %d %q", code, body)
	}
	// kubectl get --raw prints the body of a 200 only.
	if code, text := get(t, h, "/status"); code != http.StatusOK || text != "not ready\n"+body {
		t.Errorf("status, not ready: %d %q", code, text)
	}
	const wantJSON = `{"ready":false,"checks":[{"name":"api","ready":true},{"name":"pool /data","ready":false,"reason":"its disk is not mounted"}]}`
	if code, text := get(t, h, "/status?format=json"); code != http.StatusOK || text != wantJSON+"\n" {
		t.Errorf("status as JSON: %d %q", code, text)
	}
	if code, text := get(t, h, "/status?format=yaml"); code != http.StatusBadRequest || !strings.Contains(text, `"yaml"`) {
		t.Errorf("status in an unknown format: %d %q", code, text)
	}
	broken = nil
	if code, text := get(t, h, "/status"); code != http.StatusOK || !strings.HasPrefix(text, "ready\n[+] api ok\n") {
		t.Errorf("status, ready: %d %q", code, text)
	}
	note = "the directory does not exist"
	if code, text := get(t, h, "/readyz"); code != http.StatusOK || !strings.HasPrefix(text, "[+] api ok: the directory does not exist\n") {
		t.Errorf("ready with a note: %d %q", code, text)
	}
	if code, _ := get(t, h, "/healthz"); code != http.StatusOK {
		t.Errorf("a missing disk must not restart the agent: /healthz %d", code)
	}
	if code, _ := get(t, h, "/metrics"); code != http.StatusOK {
		t.Errorf("/metrics %d", code)
	}
	if code, _ := get(t, h, "/"); code != http.StatusNotFound {
		t.Errorf("/ %d", code)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- httpserver.Serve(ctx, l, httpserver.Handler(prometheus.NewRegistry(), nil)) }()
	res, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Second):
		t.Error("still serving a second after the context ended")
	}
}
