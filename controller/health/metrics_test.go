package health_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/controller/health"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/limit"
)

// Whether volumes are held to their size, and how, by the pool.
func TestLimitsMetric(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(health.NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil }))
	w := httptest.NewRecorder()
	health.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := `hostpath_pool_limits{method="none",pool="local"} 0`
	if method := pool.Limits().Method; method != limit.MethodNone {
		want = `hostpath_pool_limits{method="` + string(method) + `",pool="local"} 1`
	}
	if !strings.Contains(w.Body.String(), want+"\n") {
		t.Errorf("no %s in\n%s", want, w.Body)
	}
}
