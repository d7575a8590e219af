package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
)

// The plan names claims of all namespaces, and the port is open to all pods.
func TestPlanIsForItsContainerAlone(t *testing.T) {
	handler := WithPlan(func() migrate.Report { return migrate.Report{} }, http.NotFoundHandler())
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
