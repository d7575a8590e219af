package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// form is an issue form:
// https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms
type form struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Labels      []string `json:"labels"`
	Body        []struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Attributes struct {
			Label       string   `json:"label"`
			Description string   `json:"description"`
			Value       string   `json:"value"`
			Render      string   `json:"render"`
			Options     []string `json:"options"`
		} `json:"attributes"`
		Validations struct {
			Required bool `json:"required"`
		} `json:"validations"`
	} `json:"body"`
}

// GitHub shows a form with an error as an empty one. What a form names of the repository is there.
func TestIssueForms(t *testing.T) {
	files, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	named := regexp.MustCompile(`\b(?:docs|manifests)/[a-z0-9/-]+(?:\.md)?`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range named.FindAllString(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s: %v", file, path, err)
			}
		}
		if filepath.Base(file) == "config.yml" {
			continue
		}
		var f form
		if err := yaml.UnmarshalStrict(data, &f); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if f.Name == "" || f.Description == "" || len(f.Body) == 0 {
			t.Errorf("%s lacks a name, a description or fields", file)
		}
		ids := map[string]bool{}
		for i, b := range f.Body {
			switch {
			case b.Type == "markdown" && b.Attributes.Value != "" && b.ID == "":
			case !strings.Contains("textarea input dropdown", b.Type) || b.ID == "" || ids[b.ID] || b.Attributes.Label == "",
				(b.Type == "dropdown") != (len(b.Attributes.Options) > 0):
				t.Errorf("%s: field %d: %+v", file, i, b)
			}
			ids[b.ID] = true
		}
	}
}
