package provision

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

// A PV that a webhook refuses is sent less and less often, down to every five minutes, and its claim is
// not provisioned meanwhile. One that the API server cannot save now is sent every half minute.
func TestPausesOfPVsThatAreNotSaved(t *testing.T) {
	for status, want := range map[int]struct {
		last  time.Duration
		waits bool
	}{
		http.StatusForbidden:           {5 * time.Minute, true},
		http.StatusUnprocessableEntity: {5 * time.Minute, true},
		http.StatusInternalServerError: {30 * time.Second, false},
		http.StatusServiceUnavailable:  {30 * time.Second, false},
	} {
		c := examiner(t)
		pv := goodPV(c, "now")
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusInternalServerError: metav1.StatusReasonInternalError,
			http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable}
		code := status
		answers(t, c, func(*http.Request) (int, any) {
			if code == http.StatusCreated {
				return code, pv
			}
			return code, apitest.Failure(code, reasons[code])
		})
		pvs := libraryClient{c.Client, c}.CoreV1().PersistentVolumes()
		var pause time.Duration
		for range 20 {
			if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err == nil {
				t.Errorf("%d: it was saved", status)
			}
			pause = c.saving.When(pv.Name)
		}
		if pause != want.last || c.saving.waits(pv.Name) != want.waits {
			t.Errorf("%d: the last pause is %v, want %v; it waits: %v", status, pause, want.last, c.saving.waits(pv.Name))
		}
		code = http.StatusCreated
		if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil || c.saving.waits(pv.Name) {
			t.Errorf("%d, then saved: %v", status, err)
		}
		if c.saving.Forget(pv.Name); c.saving.When(pv.Name) != retryFirst {
			t.Errorf("%d: the pause does not begin anew", status)
		}
	}
}
