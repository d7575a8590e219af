package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
)

func TestPlanIsPrinted(t *testing.T) {
	plan := func() migrate.Report { return migrate.Report{Node: "node-01"} }
	server := httptest.NewServer(agent.WithPlan(plan, http.NotFoundHandler()))
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
