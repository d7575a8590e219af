package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// withImage are the kinds whose objects a reader has set up: the image of the first two, and the settings of a class,
// which cannot be changed.
var withImage = regexp.MustCompile(`(?m)^kind: (DaemonSet|Deployment|StorageClass)$`)

// hasImage reports whether a kustomization of the tree has an object of these kinds.
func hasImage(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	var k struct{ Resources []string }
	if err == nil {
		err = yaml.Unmarshal(text, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(k.Resources, func(name string) bool {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return err == nil && hasImage(t, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return withImage.Match(text)
	})
}

// appliedDir matches a command that applies a directory of the checkout.
var appliedDir = regexp.MustCompile("\\b(?:apply|create|replace)\\b[^\n`]*? -[kf] (manifests/[A-Za-z0-9/-]+)(?:[\\s`.,:;)\"]|$)")

// inline matches the code in a line of text, which a line break may part.
var inline, parted = regexp.MustCompile("`[^`\n]+`|`[^`\n]+\n[^`\n]+`"), regexp.MustCompile(`\n\s*(//|#)?\s*`)

// checkouts returns the directories with a workload or a class that a text has its reader apply.
func checkouts(t *testing.T, text string) (found []string) {
	t.Helper()
	text = inline.ReplaceAllStringFunc(text, func(code string) string { return parted.ReplaceAllString(code, " ") })
	for _, m := range appliedDir.FindAllStringSubmatch(text, -1) {
		dir := filepath.Join(root, m[1])
		if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); err == nil && hasImage(t, dir) {
			found = append(found, m[1])
		}
	}
	return found
}

// No page, header of a manifest or message has its reader apply a form of the checkout: its image is one that no node
// can pull, so it would take the agents down, node by node. A kustomization of the reader's own names the form.
func TestNoPageAppliesTheCheckout(t *testing.T) {
	read := 0
	for _, top := range []string{"README.md", "CONTRIBUTING.md", "docs", "manifests", "controller", "cmd", "volume", "systemd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || ext != ".md" && ext != ".yaml" && ext != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			read++
			for _, dir := range checkouts(t, string(text)) {
				t.Errorf("%s applies %s, whose image no node can pull: name it in $STORAGE, as README.md does", path, dir)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 500 {
		t.Errorf("%d files", read)
	}
	for text, want := range map[string]int{
		"kubectl apply -k manifests/csi\n": 1, "    oc apply -k manifests/openshift-csi": 1, "`kubectl apply -k manifests/operator`": 1,
		"`a` and\n`kubectl apply -k\nmanifests/csi`": 1, "// `kubectl apply\n\t// -k manifests/csi`": 1, "`apply`, and\n`x -k manifests/csi`": 0,
		"kubectl apply --server-side -k manifests/examples/both-modes.": 1, "kubectl apply -k manifests/examples/blank-disks": 1,
		"kubectl apply -k manifests/policy": 0, "kubectl apply -k manifests/monitoring": 0, "kubectl apply -k $STORAGE": 0,
		"kubectl delete -k manifests/uninstall/csi": 0, "kubectl apply -f manifests/examples/operator-pool.yaml": 0,
	} {
		if got := checkouts(t, text); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A page that uses STORAGE sets it in its first block, or its reader's shell has nothing in it.
func TestPagesSetStorage(t *testing.T) {
	const set = "STORAGE=../my-"
	used := 0
	eachPage(t, func(path, text string, commands []Command) {
		at := slices.IndexFunc(commands, func(c Command) bool { return strings.Contains(c.Text, "$STORAGE") })
		if at < 0 {
			return
		}
		used++
		if !slices.ContainsFunc(commands[:at], func(c Command) bool { return strings.HasPrefix(c.Text, set) }) {
			t.Errorf("%s:%d uses STORAGE, which no command before it sets", path, commands[at].Line)
		}
		if strings.Count(text, set) != 1 {
			t.Errorf("%s sets STORAGE %d times", path, strings.Count(text, set))
		}
		if path != "README.md" && !strings.Contains(text, "README.md#install-on-your-cluster") {
			t.Errorf("%s does not say where STORAGE is made", path)
		}
	})
	if used < 8 {
		t.Errorf("%d pages use STORAGE", used)
	}
}

// Commands are typed into bash and zsh, and maybe twice. An interactive zsh knows no comments, refuses a pattern that matches
// no file, and sh has no braces.
func TestCommandsFitEachShell(t *testing.T) {
	comment, braces := regexp.MustCompile(`\s#\s`), regexp.MustCompile(`[A-Za-z0-9/.=-]\{[a-z]+(,[a-z]+)+\}`)
	quoted := regexp.MustCompile(`'[^']*'|"[^"]*"`)
	address, again := regexp.MustCompile(`//\S*\?`), regexp.MustCompile(`^mkdir [^-]`)
	lines := regexp.MustCompile("(?m)^ *```sh\n *#|\n *#.*\n *(make|kubectl) ")
	eachPage(t, func(path, text string, commands []Command) {
		if lines.MatchString(text) {
			t.Errorf("%s: a line with a comment alone is a command in zsh", path)
		}
		for _, c := range commands {
			bare := quoted.ReplaceAllString(c.Text, "")
			if address.MatchString(bare) {
				t.Errorf("%s:%d: quote the ?, a pattern in zsh: %s", path, c.Line, c.Text)
			}
			if again.MatchString(bare) {
				t.Errorf("%s:%d: mkdir -p can be repeated: %s", path, c.Line, c.Text)
			}
			if comment.MatchString(bare) {
				t.Errorf("%s:%d: a comment after a command is an argument in zsh: %s", path, c.Line, c.Text)
			}
			if braces.MatchString(bare) {
				t.Errorf("%s:%d: write out the words of the braces: %s", path, c.Line, c.Text)
			}
		}
	})
}

// eachPage calls f for each page, with its path from the top of the tree.
func eachPage(t *testing.T, f func(path, text string, commands []Command)) {
	t.Helper()
	all := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		commands, err := Commands(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		f(name, string(text), commands)
	}
}
