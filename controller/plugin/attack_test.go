package plugin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// A right that a user lacks is said in words by each command that asks for it: nothing of it is absent, or
// well.
func TestEachRightThatIsLacked(t *testing.T) {
	words := map[string]string{"namespaces": "read namespace ", "persistentvolumeclaims": "read claim "} // of the writing commands
	needless := map[string]string{                                                                       // the claim has a PV, or a node, or a class
		"explain data": "csinodes csistoragecapacities daemonsets storageclasses", "explain new": "daemonsets persistentvolumeclaims storageclasses",
	}
	for _, command := range append(slices.Clone(commands), []struct{ call, formats string }{{"recover --all --dry-run", ""}, {"undelete orders --dry-run", ""}}...) {
		t.Run(command.call, func(t *testing.T) {
			t.Parallel()
			without := func(resources ...string) *scene.Cluster {
				c := forbidden(resources...)
				if command.formats == "" {
					if c = recovering(); strings.HasPrefix(command.call, "undelete") {
						c = undeleting().Cluster
					}
					c.Forbidden = resources
				}
				return c
			}
			server := without().Serve(t)
			args := append(strings.Fields(command.call), "-o", "json", "--kubeconfig")
			call(t.Context(), append(args, server.Kubeconfig(t))...)
			for _, asked := range server.Asked() {
				_, resource, _ := strings.Cut(asked, "/")
				if resource == "selfsubjectaccessreviews" {
					continue // all users may
				}
				if resource == "version" {
					resource = "/version"
				}
				code, out, errOut := call(t.Context(), append(args, without(resource).Start(t))...)
				text := out + errOut
				says := strings.Contains(text, "may not") && (strings.Contains(text, resource) || words[resource] != "" && strings.Contains(text, words[resource]) || resource == "pods/exec") || strings.Contains(text, "cannot get "+resource)
				if !says && !strings.Contains(needless[command.call], resource) || out != "" && !json.Valid([]byte(out)) || out == "" && code == 0 {
					t.Errorf("without %s: code %d, %.300s %s", asked, code, out, errOut)
				}
			}
		})
	}
}

// A list that breaks off after its first page is unknown: no node of the first page is taken for all of
// them. One that an API server with too much work answers a second later is whole.
func TestListsThatBreakOff(t *testing.T) {
	server := large(520, 1, 0).Serve(t)
	for name, row := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   string // "" if the list is whole
	}{
		"its version is over": {status(http.StatusGone, "Expired"), "cannot list nodes: "},
		"an error":            {status(http.StatusInternalServerError, "InternalError"), "cannot list nodes: "},
		"an expired login":    {status(http.StatusUnauthorized, "Unauthorized"), "cannot list nodes: the API server does not accept the login"},
		"half of it": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","items":[{`)
		}, "cannot list nodes: "},
		"no end":        {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "cannot list nodes: "},
		"too much work": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var busy sync.Map
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch _, before := busy.LoadOrStore(r.URL.String(), true); {
				case r.URL.Query().Get("continue") != "" && row.answer != nil:
					row.answer(w, r)
				case row.answer == nil && !before:
					w.Header().Set("Retry-After", "1")
					status(http.StatusTooManyRequests, "TooManyRequests")(w, r)
				default:
					server.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(web.Close)
			for _, command := range []string{"status", "volumes -A", "doctor", "explain data-7-0"} {
				args := append(strings.Fields(command), "--no-exec", "-o", "json", "--kubeconfig", scene.Kubeconfig(t, web.URL))
				if name == "no end" {
					args = append(args, "--request-timeout=3s")
				}
				code, out, errOut := call(t.Context(), args...)
				whole := !strings.Contains(out, "cannot list ")
				if !json.Valid([]byte(out)) || whole != (row.want == "") || !strings.Contains(out, row.want) || (command == "doctor") != (code == 1) ||
					strings.Contains(out, "does not exist") || strings.Contains(out, "no agent") || strings.Contains(out, `"gone"`) {
					t.Errorf("%s: code %d, %.600s %s", command, code, out, errOut)
				}
			}
		})
	}
}

func status(code int, reason string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
	}
}

// Interrupted while it reads, a command prints nothing and fails, and report leaves no file.
func TestInterrupted(t *testing.T) {
	server := partly().Serve(t)
	dir := t.TempDir()
	for _, c := range append([]struct{ call, formats string }{{"report -f " + filepath.Join(dir, "r.zip"), "table"}}, commands...) {
		for format := range strings.FieldsSeq(c.formats) {
			ctx, interrupt := context.WithCancel(t.Context())
			var requests atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > 3 || strings.HasPrefix(c.call, "version") {
					interrupt() // the answer comes too late
					return
				}
				server.ServeHTTP(w, r)
			}))
			code, out, errOut := call(ctx, append(strings.Fields(c.call), "-o", format, "--kubeconfig", scene.Kubeconfig(t, web.URL))...)
			if web.Close(); code != 1 || out != "" || errOut == "" {
				t.Errorf("%s -o %s: code %d, stdout %.200q, stderr %.200q", c.call, format, code, out, errOut)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("report leaves %v, %v", left, err)
	}
}
