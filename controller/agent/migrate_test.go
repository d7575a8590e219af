package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/migrate"
	"kubevirt.io/hostpath-provisioner/controller/pvs"
	"kubevirt.io/hostpath-provisioner/volume"
)

// planning is a migrator with a plan, though nothing was looked at.
func planning(t *testing.T) *migrate.Migrator {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: t.TempDir() + "/pool"})
	if err != nil {
		t.Fatal(err)
	}
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.New(migrate.Config{
		Client: fake.NewClientset(), Node: "node-01", Pools: pools, Driver: "d", Mode: migrate.Plan, PVs: &pvs.PVs{}, Events: &events.Recorder{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The plan names claims of all namespaces, and the port is open to all pods.
func TestPlanIsForItsContainerAlone(t *testing.T) {
	handler := WithPlan(planning(t), http.NotFoundHandler())
	for remote, want := range map[string]int{
		"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "10.244.1.7:1": http.StatusForbidden, "nonsense": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, MigrationPath, nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", remote, w.Code, want)
		}
	}
}
