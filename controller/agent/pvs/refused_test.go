package pvs

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// A policy of an older version refuses a mark that this version writes: each PV of the node is told, and
// asked for once, not at each check of it, until the agent gets the permission. Another change of the PV
// is asked for, and what the API server cannot write now is asked for again.
func TestRefusedMarkIsNotAskedForAgain(t *testing.T) {
	for status, want := range map[int]struct{ writes, events int }{
		http.StatusUnprocessableEntity: {3, 1}, http.StatusForbidden: {3, 1}, http.StatusBadRequest: {3, 1},
		http.StatusServiceUnavailable: {12, 0},
	} {
		p := newPVs(t)
		pv := validPV(p, "now")
		pv.UID = "u"
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusBadRequest: metav1.StatusReasonBadRequest,
			http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable}
		writes, told := 0, 0
		setAnswer(t, p, func(r *http.Request) (int, any) {
			if strings.HasSuffix(r.URL.Path, "/events") {
				told++
				return http.StatusCreated, map[string]any{"kind": "Event", "apiVersion": "v1"}
			}
			writes++
			return status, apitest.Failure(status, reasons[status])
		})
		p.Events = events.New(p.Client, "node-01")
		defer p.Events.Close()
		for range 10 {
			if err := p.patchMeta(t.Context(), pv, "annotations", map[string]any{"a": "1"}); err == nil {
				t.Errorf("%d: no error", status)
			}
		}
		if err := p.patchMeta(t.Context(), pv, "annotations", map[string]any{"a": "2"}); err == nil {
			t.Errorf("%d: no error", status)
		}
		if p.Granted(); p.patchMeta(t.Context(), pv, "annotations", map[string]any{"a": "1"}) == nil {
			t.Errorf("%d: no error", status)
		}
		if writes != want.writes || told != want.events {
			t.Errorf("%d: %d writes and %d events, want %+v", status, writes, told, want)
		}
	}
}
