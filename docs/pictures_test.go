package docs

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every picture fits a forge's column, is legible on a dark page, has a title, and is on a page.
func TestPicturesFitEachPage(t *testing.T) {
	files, err := filepath.Glob("*.svg")
	if err != nil || len(files) < 6 {
		t.Fatalf("%q, %v", files, err)
	}
	var shown strings.Builder
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(data)
	}
	for _, file := range files {
		svg := text(t, "docs/"+file)
		width, err := strconv.ParseFloat(found(t, "docs/"+file, `<svg [^>]*width="([0-9.]+)"`)[0], 64)
		if err != nil || width > 832 {
			t.Errorf("%s is %g wide, %v", file, width, err)
		}
		if !strings.Contains(svg, "prefers-color-scheme: dark") || !strings.Contains(svg, "<title>") || !strings.Contains(svg, "viewBox=") {
			t.Errorf("%s has no colours for a dark page, no title, or no viewBox", file)
		}
		if !regexp.MustCompile(`!\[[^\]]+\]\((docs/)?` + regexp.QuoteMeta(file) + `\)`).MatchString(shown.String()) {
			t.Errorf("no page shows %s", file)
		}
	}
}

// Pictures that are written by hand have the names that the tree has.
func TestPicturesAreTrue(t *testing.T) {
	names := regexp.MustCompile(`manifests/[a-z/-]+`).FindAllString(text(t, "docs/forms.svg"), -1)
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(root, name, "kustomization.yaml")); err != nil {
			t.Errorf("docs/forms.svg names %s: %v", name, err)
		}
	}
	if len(names) < 5 {
		t.Errorf("docs/forms.svg names %q", names)
	}
	all := func(path, pattern string) (names []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text(t, path), -1) {
			names = append(names, m[1])
		}
		return names
	}
	got, want := all("docs/node-gone.svg", `class="c"[^>]*>([a-z]+)<`), all("controller/operator/nodegone/policy.go", `policy = "([a-z]+)"`)
	if len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("docs/node-gone.svg has the policies %q, the operator %q", got, want)
	}
}

// A picture of a screen has the text of the screen that a test of the plugin compares with the command.
func TestPicturesOfScreens(t *testing.T) {
	color, tag := regexp.MustCompile("\x1b\\[[0-9;]*m"), regexp.MustCompile(`<[^>]*>`)
	for picture, screen := range map[string]string{"plugin.svg": "explain.screen", "status.svg": "status.screen"} {
		want := strings.Split(strings.TrimRight(color.ReplaceAllString(text(t, "controller/plugin/testdata/"+screen), ""), "\n"), "\n")
		want = slices.DeleteFunc(want, func(line string) bool { return line == "" })
		var got []string
		for _, line := range regexp.MustCompile(`<text.*</text>`).FindAllString(text(t, "docs/"+picture), -1) {
			got = append(got, html.UnescapeString(tag.ReplaceAllString(line, "")))
		}
		if !slices.Equal(got, want) {
			t.Errorf("docs/%s is not %s: draw it again as e2e/cmd/record says\n%q\n%q", picture, screen, got, want)
		}
	}
}
