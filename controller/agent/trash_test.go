package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
)

type fakeTrash struct {
	err   error
	asked []string
}

func (f *fakeTrash) did(what string, n orphans.Named, o kuberecovery.Options) {
	f.asked = append(f.asked, strings.Join([]string{what, n.Pool, n.Name, n.Trash, o.FromCluster}, " "))
}
func (f *fakeTrash) List(context.Context) ([]kuberecovery.Kept, error) {
	f.did("list", orphans.Named{}, kuberecovery.Options{})
	return []kuberecovery.Kept{{PoolUUID: "p", ID: "T-secret", Name: "pvc-1"}}, f.err
}
func (f *fakeTrash) Plan(_ context.Context, r recovery.Request) (kuberecovery.Volume, error) {
	f.did("plan", r.Named, r.Options)
	return kuberecovery.Volume{}, f.err
}
func (f *fakeTrash) Undelete(_ context.Context, r recovery.Request) (recovery.Undeleted, error) {
	f.did("undelete", r.Named, r.Options)
	return recovery.Undeleted{}, f.err
}
func (f *fakeTrash) Remove(_ context.Context, n orphans.Named) error {
	f.did("remove", n, kuberecovery.Options{})
	return f.err
}

// The port is open to all pods: only the agent's own container lists deleted volumes, brings one back or
// removes one.
func TestTrashIsForItsContainerAlone(t *testing.T) {
	const body = `{"pool":"p","name":"pvc-1","trash":"T","fromCluster":"x"}`
	for path, want := range map[string]string{"GET " + TrashPath: "list    ", "POST " + TrashPlanPath: "plan p pvc-1 T x",
		"POST " + TrashUndeletePath: "undelete p pvc-1 T x", "POST " + TrashRemovePath: "remove p pvc-1 T "} {
		method, url, _ := strings.Cut(path, " ")
		for remote, code := range map[string]int{"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK,
			"10.244.1.7:1": http.StatusForbidden, "nonsense": http.StatusForbidden} {
			fake := &fakeTrash{}
			w := askOrphans(WithTrash(fake, http.NotFoundHandler()), method, url, body, remote)
			if w.Code != code || (code == http.StatusOK) != (len(fake.asked) == 1) || code == http.StatusOK && fake.asked[0] != want {
				t.Errorf("%s from %s: %d, asked %q; want %d, %q", path, remote, w.Code, fake.asked, code, want)
			}
			if strings.Contains(w.Body.String(), "T-secret") {
				t.Errorf("%s from %s tells the ID, by which anyone could have the volume removed: %s", path, remote, w.Body)
			}
		}
	}
	for err, code := range map[error]int{errors.New("a name in use"): http.StatusConflict,
		fmt.Errorf("later: %w", volume.ErrNotReady): http.StatusServiceUnavailable} {
		w := askOrphans(WithTrash(&fakeTrash{err: err}, http.NotFoundHandler()), "POST", TrashUndeletePath, "{}", "127.0.0.1:1")
		if w.Code != code || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
	for _, path := range []string{TrashUndeletePath, TrashRemovePath} {
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		if w := askOrphans(WithTrash(&fakeTrash{}, next), "GET", path, "", "127.0.0.1:1"); w.Code != http.StatusTeapot {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}
