package monitor_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A pool whose disk does not answer is named by /readyz, and neither that nor a
// scrape waits for it; what looks at its path beside it hangs, too.
func TestDiskHangs(t *testing.T) {
	var frozen atomic.Bool
	thawed := make(chan struct{})
	t.Cleanup(func() { close(thawed) })
	hang := func(string) {
		if frozen.Load() {
			<-thawed
		}
	}
	const patience = time.Second
	pool, err := volume.New(volume.Config{Name: "frozen", Path: filepath.Join(t.TempDir(), "pool"), Patience: patience, Step: hang})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	other := openPool(t)
	pools := []*volume.Pool{pool, other}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.NewVolumeCollector(pools), monitor.NewCollector(pools, func(path string) (bool, error) {
		if path == pool.Path() {
			hang("")
		}
		return true, nil
	}))
	var checks []httpserver.Check
	for _, p := range pools {
		checks = append(checks, httpserver.Check{Name: "pool " + p.Path(), Err: p.Ready})
	}
	handler := httpserver.Handler(registry, checks)
	get := func(path string, within time.Duration) (code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		begin := time.Now()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if took := time.Since(begin); took > within {
			t.Errorf("%s took %s", path, took)
		}
		return w.Code, w.Body.String()
	}

	frozen.Store(true)
	if _, err := pool.Create(volume.Spec{Name: "v", Bytes: 1 << 20}); err == nil {
		t.Fatal("a volume was made")
	}
	code, body := get("/readyz", patience/2)
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "[-] pool "+pool.Path()) || !strings.Contains(body, "does not answer") ||
		!strings.Contains(body, "[+] pool "+other.Path()+" ok") {
		t.Errorf("%d\n%s", code, body)
	}
	if code, body := get("/healthz", patience/2); code != http.StatusOK {
		t.Errorf("%d\n%s", code, body)
	}
	for _, within := range []time.Duration{4 * time.Second, patience} { // the second does not ask the pool
		_, body := get("/metrics", within)
		for _, want := range []string{`kubevirt_hpp_pool_ready{pool="frozen"} 0`, `kubevirt_hpp_pool_ready{pool="local"} 1`, `kubevirt_hpp_pool_path_shared_with_os{pool="local"} 1`} {
			if !strings.Contains(body, want+"\n") {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
	}
}
