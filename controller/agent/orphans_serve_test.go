package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/volume"
)

type fakeOrphans struct {
	err     error
	removed []orphans.Named
}

func (f *fakeOrphans) List(context.Context) ([]orphans.Orphan, error) { return nil, f.err }
func (f *fakeOrphans) Restored(context.Context, orphans.Wanted, orphans.Restorer) (orphans.Objects, error) {
	return orphans.Objects{}, f.err
}
func (f *fakeOrphans) Remove(_ context.Context, n orphans.Named) error {
	f.removed = append(f.removed, n)
	return f.err
}

// The port is open to all pods: only the agent's own container lists orphans and removes one.
func TestOrphansAreForTheirContainerAlone(t *testing.T) {
	body := `{"pool":"p","name":"pvc-1","trash":"T"}`
	for _, path := range []string{"GET " + OrphansPath, "POST " + OrphansRestoredPath, "POST " + OrphansRemovePath} {
		method, url, _ := strings.Cut(path, " ")
		for remote, want := range map[string]int{
			"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "10.244.1.7:1": http.StatusForbidden, "nonsense": http.StatusForbidden,
		} {
			fake := &fakeOrphans{}
			w := askOrphans(WithOrphans(fake, nil, http.NotFoundHandler()), method, url, body, remote)
			if w.Code != want {
				t.Errorf("%s from %s: %d, want %d", path, remote, w.Code, want)
			}
			if removed := len(fake.removed) == 1 && fake.removed[0].Trash == "T"; removed != (want == http.StatusOK && url == OrphansRemovePath) {
				t.Errorf("%s from %s: removed %+v", path, remote, fake.removed)
			}
		}
	}
}

func askOrphans(h http.Handler, method, path, body, remote string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = remote
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOrphansAnswers(t *testing.T) {
	for what, row := range map[string]struct {
		method, path, body string
		err                error
		want               int
	}{
		"kept":          {"POST", OrphansRemovePath, "{}", errors.New("its claim exists"), http.StatusConflict},
		"not ready":     {"POST", OrphansRemovePath, "{}", fmt.Errorf("later: %w", volume.ErrNotReady), http.StatusServiceUnavailable},
		"no volume":     {"POST", OrphansRemovePath, "pvc-1", nil, http.StatusConflict},
		"too much":      {"POST", OrphansRemovePath, `{"name":"` + strings.Repeat("x", maxRequest) + `"}`, nil, http.StatusConflict},
		"by a GET":      {"GET", OrphansRemovePath, "{}", nil, http.StatusTeapot},
		"another path":  {"GET", "/healthz", "", nil, http.StatusTeapot},
		"a longer path": {"POST", OrphansRemovePath + "/x", "{}", nil, http.StatusTeapot},
	} {
		fake := &fakeOrphans{err: row.err}
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		w := askOrphans(WithOrphans(fake, nil, next), row.method, row.path, row.body, "127.0.0.1:1")
		if w.Code != row.want || row.err == nil && len(fake.removed) > 0 || row.err != nil && !strings.Contains(w.Body.String(), row.err.Error()) {
			t.Errorf("%s: %d %q, removed %v; want %d", what, w.Code, w.Body, fake.removed, row.want)
		}
	}
}
