package disks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

// quiet records no events.
type quiet struct{ Recorder }

func (quiet) Warn(context.Context, corev1.ObjectReference, string, string, string) {}

// While its configuration is invalid, the process answers inspect with the reason, in one line. A
// pass that succeeds ends it.
func TestFailedPassIsReported(t *testing.T) {
	cm := configMap("wipe=shred", "deviceDir=dev")
	client := fake.NewClientset(cm, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}})
	c := New(Config{Client: apitest.Listing(client), Events: quiet{}, Node: "node-01", ConfigMap: cm.Name,
		Interval: time.Hour})
	reason := func() string {
		w := httptest.NewRecorder()
		c.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
		if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		return w.Header().Get(FailureHeader)
	}
	c.pass(t.Context())
	if got := reason(); !strings.Contains(got, `wipe mode "shred"`) || !strings.Contains(got, `deviceDir "dev"`) ||
		strings.Contains(got, "\n") {
		t.Errorf("reason %q", got)
	}
	c.ConfigMap = ""
	c.pass(t.Context())
	if got := reason(); got != "" {
		t.Errorf("after a pass that succeeded: %q", got)
	}
}
