package localpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if _, err := Open(file, "node-01", nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		`{"nodePathMap":[{"node":"node-01","paths":["/a","/b"]}]}`: "",
		`{"nodePathMap":[{"node":"node-01","paths":["b"]}]}`:       file + ": config.json",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(file, "node-01", nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want words %q", text, err, want)
		}
		if err == nil && len(f.Paths().All()) != 2 {
			t.Errorf("paths %q", f.Paths().All())
		}
	}
}

// fakePools answers Follow.
type fakePools struct {
	refused  string // by Check
	returned bool
	held     map[string]string
	unknown  bool // one is noted that the agent did not know at its start
	closed   bool // nothing can be noted
	failing  bool // to note
	outdated bool // Held answered after the last Note
}

func (f *fakePools) Check([]string) error {
	if f.refused != "" {
		return errors.New(f.refused)
	}
	return nil
}
func (f *fakePools) Returned() bool { return f.returned }
func (f *fakePools) Held(_ context.Context, path string) string {
	f.outdated = true
	return f.held[path]
}
func (f *fakePools) Writable() bool { return !f.closed }
func (f *fakePools) Note(_ context.Context, configured []string) (again, noted bool) {
	f.outdated = false
	return f.unknown && slices.Equal(configured, []string{"/a", "/b"}), !f.failing
}

// A changed file has the agent start again, unless it could not start with it or a directory is
// held. Then one event has the reason, and the agent goes on with the configuration that is in
// force, for as long as that takes.
func TestFollow(t *testing.T) {
	config := func(paths string) string { return `{"nodePathMap":[{"node":"node-01","paths":[` + paths + `]}]}` }
	for name, row := range map[string]struct {
		text    string
		had     []string // directories that had volumes
		pools   fakePools
		changed bool
		event   string // the reason and words, "" for none
	}{
		"the same":                {text: config(`"/a","/b"`)},
		"the same otherwise":      {text: config(`"/a/","/b//"`), pools: fakePools{refused: "not asked"}},
		"possible again":          {text: config(`"/a","/b"`), pools: fakePools{returned: true}, changed: true, event: "ConfigurationChanged"},
		"one more":                {text: config(`"/a","/b","/c"`), changed: true, event: "ConfigurationChanged"},
		"one less":                {text: config(`"/a"`), pools: fakePools{held: map[string]string{"/a": "has volumes"}}, changed: true, event: "ConfigurationChanged"},
		"one less, held":          {text: config(`"/a","/c"`), pools: fakePools{held: map[string]string{"/b": "has volumes: list it"}}, event: "ConfigurationRefused the path /b, which has volumes: list it"},
		"no pool":                 {text: config(`"/a","/b","/c"`), pools: fakePools{refused: "path /c: it is a file"}, event: "ConfigurationRefused path /c: it is a file"},
		"no pool, one is back":    {text: config(`"/a","/b","/c"`), pools: fakePools{refused: "path /c: it is a file", returned: true}, event: "ConfigurationRefused path /c: it is a file"},
		"no JSON":                 {text: "{", event: "ConfigurationRefused config.json is not the configuration"},
		"wrong":                   {text: config(`"b"`), event: `ConfigurationRefused path "b" is not absolute`},
		"a former one, held":      {text: config(`"/a","/b"`), had: []string{"/b", "/z"}, pools: fakePools{held: map[string]string{"/z": "has volumes: list it"}}, event: "ConfigurationRefused node-01 no longer the path /z, which has volumes: list it"},
		"a former one, not open":  {text: config(`"/a","/b"`), had: []string{"/z"}, pools: fakePools{closed: true}},
		"held no more, not noted": {text: config(`"/a","/b"`), had: []string{"/z"}, pools: fakePools{failing: true}},
		"one more, not noted":     {text: config(`"/a","/b","/c"`), pools: fakePools{closed: true, failing: true}, changed: true, event: "ConfigurationChanged"},
		"held no more":            {text: config(`"/a","/b"`), had: []string{"/z"}, changed: true, event: "ConfigurationChanged"},
		"held no more, and wrong": {text: config(`"b"`), had: []string{"/z"}, event: `ConfigurationRefused path "b" is not absolute`},
		"listed again":            {text: config(`"/a","/b","/z"`), had: []string{"/z"}, pools: fakePools{held: map[string]string{"/z": "has volumes"}}, changed: true, event: "ConfigurationChanged"},
		"noted meanwhile":         {text: config(`"/a","/b"`), pools: fakePools{unknown: true}, changed: true, event: "ConfigurationChanged"},
		"no path left":            {text: `{"nodePathMap":[]}`, event: "ConfigurationRefused nodePathMap is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(config(`"/a","/b"`))
			f, err := Open(file, "node-01", row.had)
			if err != nil {
				t.Fatal(err)
			}
			write(row.text)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				client := fake.NewClientset()
				recorder := events.New(client, "node-01")
				defer recorder.Close()
				if err := f.Follow(ctx, recorder, &row.pools); row.changed != errors.Is(err, ErrChanged) || !row.changed && err != nil {
					t.Errorf("%v", err)
				}
				if row.changed && row.pools.outdated {
					t.Error("the next start reads a note from before a directory was held no more")
				}
				list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				reason, words, _ := strings.Cut(row.event, " ")
				if n := len(list.Items); (n == 0) != (reason == "") || n > 1 || n == 1 && (list.Items[0].Reason != reason || !strings.Contains(list.Items[0].Message, words)) {
					t.Errorf("events %+v", list.Items)
				}
			})
		})
	}
}
