package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig names the variable with the kubeconfig of a real API server, which then has to give the
// same answers.
const kubeconfig = "HPP_API_KUBECONFIG"

// verbs are the words of the table for patches, with their media types.
var verbs = map[string]string{"MERGE": "application/merge-patch+json", "JSON": "application/json-patch+json",
	"STRATEGIC": "application/strategic-merge-patch+json", "APPLY": "application/apply-patch+yaml"}

// TestTable compares the answers with testdata/requests.txt. Each part of it has a namespace, $ns, and
// a suffix for names of cluster-wide objects, $id.
func TestTable(t *testing.T) {
	table, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(table), "\n== ")
	for part := range strings.SplitSeq(rows, "\n== ") {
		name, lines, _ := strings.Cut(part, "\n")
		t.Run(name, func(t *testing.T) {
			path := os.Getenv(kubeconfig)
			if path == "" {
				synctest.Test(t, func(t *testing.T) {
					run(t, New(CustomResource("example.com/v1", "tables", "Table", Status)).Config("table"), lines)
				})
				return
			}
			t.Parallel()
			config, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			run(t, config, lines)
		})
	}
}

// requests runs the lines of one part.
type requests struct {
	*testing.T
	client *http.Client
	host   string
	vars   map[string]string
}

func run(t *testing.T, config *rest.Config, lines string) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	r := requests{t, client, config.Host, map[string]string{"id": id, "name": "table-" + id, "ns": "/api/v1/namespaces/table-" + id,
		"big": strings.Repeat("x", 900<<10), "note": strings.Repeat("n", 1025)}}
	r.line(`POST /api/v1/namespaces {"metadata":{"name":"$name"}} -> 201`)
	defer r.line(`DELETE $ns -> 200`)
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			r.line(line)
		}
	}
}

// line does one request and checks its answer.
func (r requests) line(line string) {
	r.Helper()
	request, want, ok := strings.Cut(line, " -> ")
	if !ok {
		r.Fatalf("%s: no expectation", line)
	}
	expand := func(s string) string {
		return os.Expand(s, func(key string) string {
			if value, ok := r.vars[key]; ok {
				return value
			}
			return "$" + key // such as $patch
		})
	}
	verb, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	code, answer, err := r.do(verb, expand(path), expand(body))
	if err != nil {
		r.Fatalf("%s: %v", line, err)
	}
	fields := strings.Fields(want)
	if got := strconv.Itoa(code); got != fields[0] {
		r.Errorf("%s\n  answered %s %v", line, got, answer)
		return
	}
	for _, f := range fields[1:] {
		if path, key, ok := strings.Cut(f, ">"); ok {
			r.vars[key] = find(answer, path)
			continue
		}
		path, value, ok := strings.Cut(f, "=")
		if !ok {
			path, value = "reason", f
		}
		if got := find(answer, path); got != expand(value) {
			r.Errorf("%s\n  %s is %q in %s", line, path, got, short(answer))
		}
	}
}

func (r requests) do(verb, path, body string) (int, any, error) {
	req, err := http.NewRequestWithContext(r.Context(), verb, r.host+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if content := verbs[verb]; content != "" {
		req.Method = http.MethodPatch
		req.Header.Set("Content-Type", content)
	}
	if kind, ok := strings.CutPrefix(verb, "META"); ok {
		req.Method = http.MethodGet
		req.Header.Set("Accept", "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadata"+kind)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	if !strings.Contains(path, "watch=true") || res.StatusCode != http.StatusOK {
		var answer any
		_ = json.Unmarshal(all, &answer) // the rows say what has to be in it
		return res.StatusCode, answer, nil
	}
	var types []string
	var objects []any
	for dec := json.NewDecoder(bytes.NewReader(all)); ; {
		var event struct {
			Type   string
			Object any
		}
		if err := dec.Decode(&event); errors.Is(err, io.EOF) {
			return res.StatusCode, map[string]any{"events": strings.Join(slices.Compact(types), ","), "objects": objects}, nil
		} else if err != nil {
			return 0, nil, err
		}
		types, objects = append(types, event.Type), append(objects, event.Object)
	}
}

// find returns what is at a path, such as items.0.metadata.name. #items is the length of a list.
func find(v any, path string) string {
	path, length := strings.CutPrefix(path, "#")
	for key := range strings.SplitSeq(path, ".") {
		key = strings.ReplaceAll(key, "|", ".")
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i < len(in) {
				v = in[i]
			} else {
				v = nil
			}
		default:
			v = nil
		}
	}
	l, _ := v.([]any)
	switch {
	case length:
		return strconv.Itoa(len(l))
	case v == nil:
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	text, _ := json.Marshal(v)
	return string(text)
}

func short(v any) string {
	text, _ := json.Marshal(v)
	return string(text[:min(len(text), 1500)])
}
