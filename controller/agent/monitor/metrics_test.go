package monitor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func openPool(t *testing.T) *volume.Pool {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	return pool
}

// Whether volumes are held to their size, and how, by the pool.
func TestLimitsMetric(t *testing.T) {
	pool := openPool(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil }))
	w := httptest.NewRecorder()
	httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := `kubevirt_hpp_pool_quota_enforced{method="none",pool="local"} 0`
	if method := pool.Quotas().Method; method != quota.MethodNone {
		want = `kubevirt_hpp_pool_quota_enforced{method="` + string(method) + `",pool="local"} 1`
	}
	if !strings.Contains(w.Body.String(), want+"\n") {
		t.Errorf("no %s in\n%s", want, w.Body)
	}
}

// Volumes that no quota limits are counted: an adopted one, wherever it is.
func TestMetricOfVolumesWithoutQuota(t *testing.T) {
	pool := openPool(t)
	if err := os.Mkdir(filepath.Join(pool.Path(), "adopted"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Adopt(volume.Spec{Name: "adopted", Bytes: 1 << 20, PV: "pv"}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil }))
	w := httptest.NewRecorder()
	httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `kubevirt_hpp_pool_volumes_without_quota{pool="local"} 1`; !strings.Contains(w.Body.String(), want+"\n") {
		t.Errorf("no %s in\n%s", want, w.Body)
	}
}

// Volumes are counted in every state, also while they are made or deleted.
func TestStatesMetric(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	at, reached, goOn := atomic.Value{}, make(chan bool), make(chan bool)
	at.Store("")
	pool, err := volume.New(volume.Config{Name: "local", Path: path, Step: func(step string) {
		if step == at.Load() {
			reached <- true
			<-goOn
		}
	}})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil }))
	counts := func(creating, ready, bound, deleting int) {
		t.Helper()
		w := httptest.NewRecorder()
		httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for state, n := range map[string]int{"creating": creating, "ready": ready, "bound": bound, "deleting": deleting} {
			if want := fmt.Sprintf(`kubevirt_hpp_pool_volumes{pool="local",state="%s"} %d`, state, n); !strings.Contains(w.Body.String(), want+"\n") {
				t.Errorf("no %s in\n%s", want, w.Body)
			}
		}
	}
	stopped := func(step string, call func() error, while func()) {
		t.Helper()
		at.Store(step)
		done := make(chan error, 1)
		go func() { done <- call() }()
		<-reached
		at.Store("")
		while()
		goOn <- true
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	create := func() error {
		_, err := pool.Create(volume.Spec{Name: "v", Bytes: 1})
		return err
	}
	counts(0, 0, 0, 0)
	stopped("create.rename", create, func() { counts(1, 0, 0, 0) })
	counts(0, 1, 0, 0)
	if _, err := pool.Bind("v", volume.Binding{PV: "pv"}); err != nil {
		t.Fatal(err)
	}
	counts(0, 0, 1, 0)
	stopped("delete.move", func() error { return pool.Delete("v") }, func() { counts(0, 0, 0, 1) })
	counts(0, 0, 0, 0)
}

// A volume's use is exported after the first measurement, its quota only if it has one.
func TestUsesMetric(t *testing.T) {
	pool := openPool(t)
	owner := record.Owner{Namespace: "default", Name: "data", UID: "1"}
	if _, err := pool.Create(volume.Spec{Name: "v", Bytes: 1 << 20, Owner: owner, Quota: record.QuotaNone}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitor.NewVolumeCollector([]*volume.Pool{pool}))
	scrape := func() string {
		w := httptest.NewRecorder()
		httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	if text := scrape(); strings.Contains(text, "kubevirt_hpp_volume_") {
		t.Errorf("before the first measurement:\n%s", text)
	}
	if err := pool.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	const labels = `{namespace="default",persistentvolumeclaim="data",pool="local",volume="v"} `
	if text := scrape(); !strings.Contains(text, "kubevirt_hpp_volume_used_bytes"+labels) || strings.Contains(text, "kubevirt_hpp_volume_quota_bytes") {
		t.Errorf("walked:\n%s", text)
	}
}
