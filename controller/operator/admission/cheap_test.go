package admission

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// One request, smaller than maxRequest, from a client that shows no certificate, costs what it costs to
// read it, not the square of the pools that it names before or now, which was more than a minute.
// Processor time is counted: a clock on the wall would measure what else the machine does.
func TestOneRequestIsCheap(t *testing.T) {
	list := func(pools int, format string) string {
		all := make([]string, pools)
		for i := range all {
			all[i] = fmt.Sprintf(format, i, i)
		}
		return strings.Join(all, ",")
	}
	for name, row := range map[string]struct {
		old, now int
		code     string
	}{"many now": {9000, 9000, `"code":400`}, "many before": {18000, 32, `"code":200`}} {
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"UPDATE",`+
			`"object":{"spec":{"storagePools":[%s]}},"oldObject":{"spec":{"storagePools":[%s]}}}}`,
			list(row.now, `{"name":"b%04d","path":"/b%04d"}`), list(row.old, `{"name":"a%04d","path":"/a%04d","pvcTemplate":{}}`))
		if len(body) > maxRequest {
			t.Fatalf("the request has %d bytes", len(body))
		}
		h := bounded(&admission.Webhook{Handler: &Validator{Cache: fake.NewClientBuilder().Build()}})
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		before := processorTime(t)
		h.ServeHTTP(answer, request)
		if took := processorTime(t) - before; took > 10*time.Second || !strings.Contains(answer.Body.String(), row.code) {
			t.Errorf("%s: a request of %d KiB took %s, answer %s", name, len(body)>>10, took.Round(time.Millisecond), answer.Body)
		}
	}
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
