package capacity

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestStatus(t *testing.T) {
	refused := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "agent", errors.New("no"))
	for name, row := range map[string]struct {
		err  error
		want string // of Ready; "": ready
	}{
		"nothing":  {nil, ""},
		"a reason": {errors.New("full"), "publish: full"},
		"no answer": {fmt.Errorf("read: %w", &url.Error{Op: "Get", URL: "https://x?timeoutSeconds=507", Err: refused}),
			"publish: the API server does not respond: connection refused"},
		"forbidden": {fmt.Errorf("read: %w", forbidden),
			`publish: read: pods "agent" is forbidden: no; apply the Role and the ClusterRole of this version`},
	} {
		var s status
		s.start()
		if s.err() == nil {
			t.Fatal("it is ready before the first pass")
		}
		s.set(t.Context(), "publish", row.err)
		if got := s.err(); got == nil && row.want != "" || got != nil && got.Error() != row.want {
			t.Errorf("%s: %v; want %q", name, got, row.want)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.set(ended, "publish", errors.New("the context ended"))
		s.set(ended, "publish", nil)
		if got := s.err(); got == nil && row.want != "" || got != nil && got.Error() != row.want {
			t.Errorf("%s: after the end %v; want %q", name, got, row.want)
		}
		s.set(t.Context(), "publish", nil)
		if err := s.err(); err != nil {
			t.Errorf("%s: it is over, and said: %v", name, err)
		}
	}
}
