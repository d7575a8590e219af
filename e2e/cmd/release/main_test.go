package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// closed returns the address of a registry that lets nobody in.
func closed(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// What a command lacks is said before anything is built.
func TestArguments(t *testing.T) {
	for _, row := range []struct{ args, words string }{
		{"", "usage: release make"},
		{"image a:v1", "usage: release make"},
		{"push", "usage: release make"},
		{"push --check registry.invalid/a:v1", "is not the name of an image that you can push"},
		{"make --version v1.0.0 --image example.com/agent extra", "unexpected"},
		{"make --version v1.0.0 --image example.com/agent --key k", "give PUSH=1 with KEY"},
		{"make --version v1.0.0 --image localhost:1/agent --push --key k", "localhost:1: no registry answers there"},
		{"make --version v1.0.0 --image " + closed(t) + "/agent --push --key k", "log in with docker login"},
		{"make --version v1.0.0 --image registry.invalid/agent", "is not the name of an image that you can push"},
		{"make --version v1.0.0 --image example.com/agent", "links to its pages and downloads: set REPOSITORY"},
		{"make --version v1.0.0 --image example.com/agent --repository example.com/agent", "set REPOSITORY to the address"},
		{"make --version 1.0.0 --repository https://example.com/a --image example.com/agent", "is not a version"},
	} {
		err := run(t.Context(), t.TempDir(), strings.Fields(row.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v, want words %q", row.args, err, row.words)
		}
	}
}
