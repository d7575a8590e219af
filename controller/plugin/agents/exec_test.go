package agents

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A refused WebSocket is followed by SPDY, which is another permission, but not if the node cannot
// be reached.
func TestFallsBackToSPDY(t *testing.T) {
	for message, want := range map[string][]string{
		"pods is forbidden": {http.MethodGet, http.MethodPost},
		"error dialing backend: dial tcp 192.0.2.3:10250: no route to host": {http.MethodGet},
	} {
		var mu sync.Mutex
		var methods []string
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			methods = append(methods, r.Method)
			mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: message})
		}))
		config := &rest.Config{Host: api.URL}
		_, err := NewExec(config, kubernetes.NewForConfigOrDie(config))(t.Context(), "hpp", "agent-1", "c", "inspect")
		api.Close()
		if err == nil || !strings.Contains(err.Error(), message) || !slices.Equal(methods, want) {
			t.Errorf("%s: asked by %v, error %v, want %v", message, methods, err, want)
		}
	}
}

// An output that does not end is not kept.
func TestBounded(t *testing.T) {
	b := &bounded{left: 5}
	for _, text := range []string{"four", "more", "x"} {
		_, _ = b.Write([]byte(text))
	}
	if b.String() != "fourx" || !b.over {
		t.Errorf("%q, %t", b.String(), b.over)
	}
}

// The errors of several pools come as lines; tables show one line for each agent.
func TestOneLine(t *testing.T) {
	const printed = "hostpath-provisioner: pool fast: there is no directory\npool slow: input/output error\n"
	if got := oneLine(printed); got != "hostpath-provisioner: pool fast: there is no directory; pool slow: input/output error" {
		t.Errorf("%q", got)
	}
}
