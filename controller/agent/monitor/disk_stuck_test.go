//go:build disk

package monitor

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// A deleted volume that cannot be removed is in the log and in the metrics, until
// it can.
func TestDiskStuckIsReported(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	path := filepath.Join(t.TempDir(), "pool")
	pool, err := volume.New(volume.Config{Name: "local", Path: path})
	if err == nil {
		err = pool.Open()
	}
	if err == nil {
		_, err = pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1})
	}
	if err == nil {
		err = pool.Delete("pvc-1")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	report, err := inspect.Read(path)
	if err != nil || len(report.Trash) != 1 {
		t.Fatal(report, err)
	}
	entry := filepath.Join(path, ".hostpath-provisioner/trash", report.Trash[0].ID)
	if err := unix.Mount(t.TempDir(), entry, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(entry, unix.MNT_DETACH)

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil }))
	becomes := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it never %s", what)
			}
		}
	}
	metric := func(value string) bool {
		w := httptest.NewRecorder()
		httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(w.Body.String(), `kubevirt_hpp_pool_stuck_trash_entries{pool="local"} `+value+"\n") &&
			strings.Contains(w.Body.String(), `kubevirt_hpp_pool_trash_entries{pool="local"} `+value+"\n")
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	k := NewPoolMonitor(pool, clientrecord.NewFakeRecorder(1), &corev1.ObjectReference{}, NewProbes(), func() {})
	go k.purge(klog.NewContext(t.Context(), logger))
	becomes("counts the entry", func() bool { return metric("1") })
	becomes("logs why", func() bool {
		return strings.Contains(log.String(), "once volume pvc-1") && strings.Contains(log.String(), "in use")
	})
	if err := unix.Unmount(entry, 0); err != nil {
		t.Fatal(err)
	}
	k.Purge()
	becomes("forgets the entry", func() bool { return metric("0") })
}
