package agent

import (
	"context"
	"net/http"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

type fakeRecovery struct{ asked []recovery.Request }

func (f *fakeRecovery) Volume(_ context.Context, r recovery.Request) (kuberecovery.Volume, error) {
	f.asked = append(f.asked, r)
	return kuberecovery.Volume{}, nil
}

// Objects of other tenants are in the answer: only the agent's own container gets it.
func TestRecoveryIsForItsContainerAlone(t *testing.T) {
	for remote, want := range map[string]int{"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "10.244.1.7:1": http.StatusForbidden, "nonsense": http.StatusForbidden} {
		fake := &fakeRecovery{}
		w := askOrphans(WithRecovery(fake, http.NotFoundHandler()), "POST", RecoverPath, `{"pool":"p","name":"pvc-1","trash":"T","fromCluster":"x"}`, remote)
		if w.Code != want || (len(fake.asked) == 1) != (want == http.StatusOK) {
			t.Errorf("from %s: %d, want %d; asked %+v", remote, w.Code, want, fake.asked)
		}
		if want == http.StatusOK && (fake.asked[0].Pool != "p" || fake.asked[0].Trash != "T" || fake.asked[0].FromCluster != "x") {
			t.Errorf("asked %+v", fake.asked)
		}
	}
	if w := askOrphans(WithRecovery(&fakeRecovery{}, http.NotFoundHandler()), "GET", RecoverPath, "", "127.0.0.1:1"); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
		t.Errorf("by a GET: %d", w.Code)
	}
}
