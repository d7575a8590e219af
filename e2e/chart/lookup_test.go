package chart

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where the chart can see the namespace, it is refused in one that would not admit the agents, with
// the command that mends it. Helm asks the API server for the namespace before it installs anything.
func TestNamespaceIsLookedUp(t *testing.T) {
	const command = "kubectl label --overwrite namespace hostpath-provisioner pod-security.kubernetes.io/{enforce,audit,warn}=privileged"
	for _, c := range []struct {
		labels, set string
		refused     bool
	}{
		{`{}`, "form=csi", true},
		{`{"pod-security.kubernetes.io/enforce":"baseline"}`, "form=legacy", true},
		{`{"pod-security.kubernetes.io/warn":"privileged"}`, "form=operator", true},
		{`{}`, "form=none,disks.enabled=true", true},
		{`{}`, "form=none,policy.enabled=true", false}, // no pods
		{`{"pod-security.kubernetes.io/enforce":"privileged"}`, "form=csi", false},
	} {
		kubeconfig := apiServer(t, c.labels)
		args := append([]string{"template", "--dry-run=server", "--disable-openapi-validation", "--kubeconfig=" + kubeconfig}, with([]string{c.set})...)
		out, err := helm(t, args...) // what is not refused fails later: this server knows no other kind
		if !c.refused && !strings.Contains(out, "unable to build kubernetes objects") || strings.Contains(out, command) != c.refused {
			t.Errorf("labels %s, %s: %v, want it refused: %v\n%.2000s", c.labels, c.set, err, c.refused, out)
		}
	}
}

// apiServer starts what Helm asks of an API server that has the namespace with these labels and no
// other object, and returns a kubeconfig for it.
func apiServer(t *testing.T, labels string) (kubeconfig string) {
	t.Helper()
	answers := map[string]string{
		"/version": `{"major":"1","minor":"34","gitVersion":"v1.34.4"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","singularName":"namespace",` +
			`"namespaced":false,"kind":"Namespace","verbs":["get","list"]}]}`,
		"/api/v1/namespaces/hostpath-provisioner": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"hostpath-provisioner","labels":` +
			labels + `}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
