package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/agent"
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

func TestPlanIsPrinted(t *testing.T) {
	server := httptest.NewServer(agent.WithPlan(planning(t), http.NotFoundHandler()))
	defer server.Close()
	address := "--http-address=" + strings.TrimPrefix(server.URL, "http://")
	for _, args := range [][]string{{"migrate", address}, {"migrate", "-o", "json", address}} {
		var out bytes.Buffer
		if err := run(context.Background(), args, &out); err != nil || !strings.Contains(out.String(), "node-01") {
			t.Errorf("%v: %v, %q", args, err, out.String())
		}
	}
	none := httptest.NewServer(agent.WithPlan(nil, http.NotFoundHandler()))
	defer none.Close()
	err := run(context.Background(), []string{"migrate", "--http-address=" + strings.TrimPrefix(none.URL, "http://")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--provision=hostpath,csi") {
		t.Errorf("an agent without a plan: %v", err)
	}
}
