package agent

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestPprofAddress(t *testing.T) {
	clean(t)
	for given, want := range map[string]string{
		"":               "",
		":6060":          "127.0.0.1:6060",
		"0.0.0.0:6060":   "0.0.0.0:6060",
		"[::]:6060":      "[::]:6060",
		"localhost:6060": "localhost:6060",
	} {
		o, err := Parse("test", []string{"--node-name=a", "--pv-dir=" + filepath.Join(t.TempDir(), "pool"), "--pprof-address=" + given}, &bytes.Buffer{})
		if err != nil || o.pprof.address != want {
			t.Errorf("--pprof-address=%s: got %v, %v; want %s", given, o, err, want)
		}
	}
}

// Nothing answers unless it is asked for, and then it is the profiles alone.
func TestPprofServes(t *testing.T) {
	none := pprofOptions{}
	if parts, err := none.listen(); len(parts) != 0 || err != nil {
		t.Errorf("off: %d parts, %v", len(parts), err)
	}
	const address = "127.98.7.6:6060" // nobody else's: outgoing connections never use it
	p := pprofOptions{address: address}
	parts, err := p.listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	g := newGroup(ctx)
	for _, part := range parts {
		g.Go(part)
	}
	go func() { ended <- g.Wait() }()
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/cmdline":           "-test.",
		"/metrics":                       "not found",
	} {
		r, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, no %q in %.200q", path, err, want, body)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
