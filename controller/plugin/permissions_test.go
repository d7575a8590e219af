package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// arguments are those of commands that need some.
var arguments = map[string][]string{"explain": {"data"}, "node": {"node-01"}, "doctor": {"--measure"},
	"recover": {"--all", "--dry-run"}, "undelete": {"data", "--dry-run"}}

// leaves returns the commands that read a cluster, by their words.
func leaves(c *cobra.Command) (all [][]string) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help" || sub.Name() == "completion" || sub.Hidden:
		case sub.HasSubCommands():
			for _, words := range leaves(sub) {
				all = append(all, append([]string{sub.Name()}, words...))
			}
		default:
			all = append(all, []string{sub.Name()})
		}
	}
	return all
}

// The roles of manifests/plugin allow what the commands ask for, and nothing else; the help of each
// command names the resources.
func TestRolesAreWhatCommandsAskFor(t *testing.T) {
	asked := map[string]bool{}
	root := plugin.Command("v1", genericiooptions.NewTestIOStreamsDiscard())
	for _, words := range leaves(root) {
		c := scene.Healthy()
		c.Agent("node-02").Status.Conditions = nil // its events have the reason
		c.Exec = func(string, []string) scene.Answer { return scene.Answer{Refused: true} }
		server := c.Serve(t)
		args := append(slices.Clone(words), arguments[words[0]]...)
		if words[0] == "report" {
			args = append(args, "-f", filepath.Join(t.TempDir(), "report.zip"))
		}
		if _, _, errOut := call(t.Context(), append(args, "--kubeconfig", server.Kubeconfig(t))...); strings.Contains(errOut, "error: ") {
			t.Errorf("%s: %s", words, errOut)
		}
		command, _, err := root.Find(words)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range server.Asked() {
			asked[r] = true
			named(t, root, command, r)
		}
	}
	allowed := map[string]bool{}
	for _, file := range []string{"view", "admin"} {
		for what := range rules(t, file) {
			if allowed[what] {
				t.Errorf("both roles allow %s", what)
			}
			allowed[what] = true
			if !asked[what] {
				t.Errorf("%s.yaml allows %s, which no command asks for", file, what)
			}
		}
	}
	for what := range asked {
		if !allowed[what] {
			t.Errorf("a command asks for %s, which no role allows", what)
		}
	}
}

// named checks that the paragraph about permissions of a command names the resource of a request. All
// users may ask for the version and about themselves.
func named(t *testing.T, root, c *cobra.Command, request string) {
	t.Helper()
	_, resource, _ := strings.Cut(request, "/")
	_, paragraph, has := strings.Cut(c.Long, "Permissions: ")
	if strings.Contains(paragraph, "those of doctor") {
		doctor, _, err := root.Find([]string{"doctor"})
		if err != nil {
			t.Fatal(err)
		}
		paragraph += doctor.Long
	}
	if resource != "selfsubjectaccessreviews" && resource != "version" && (!has || !strings.Contains(paragraph, resource)) {
		t.Errorf("%s asks for %s, and the permissions in its help do not name it", c.CommandPath(), request)
	}
}

// rules returns what a role of manifests/plugin allows.
func rules(t *testing.T, file string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("../../manifests/plugin/" + file + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				all[verb+" "+url] = true
			}
			for _, resource := range r.Resources {
				all[verb+" "+r.APIGroups[0]+"/"+resource] = true
			}
		}
	}
	return all
}

func TestExitCodesOfDoctor(t *testing.T) {
	for name, row := range map[string]struct {
		change            func(c *scene.Cluster)
		warning, critical int // the codes for --fail-on
	}{
		"healthy":     {func(*scene.Cluster) {}, 0, 0},
		"a warning":   {func(c *scene.Cluster) { c.Pools["node-01"][0].Space.Available = gib }, 1, 0},
		"unknown":     {func(c *scene.Cluster) { c.Forbidden = []string{"nodes"} }, 1, 1},
		"not asked":   {func(c *scene.Cluster) { c.Forbidden = []string{"pods/exec"} }, 1, 1},
		"no answer":   {func(c *scene.Cluster) { c.Pools = map[string][]inspect.Report{} }, 1, 1},
		"critical":    {func(c *scene.Cluster) { c.NotReady("node-01") }, 2, 2},
		"two of them": {func(c *scene.Cluster) { c.NotReady("node-01"); c.Forbidden = []string{"leases"} }, 2, 2},
	} {
		c := scene.Healthy()
		row.change(c)
		kubeconfig := c.Start(t)
		for failOn, want := range map[string]int{"warning": row.warning, "critical": row.critical} {
			code, out, errOut := call(t.Context(), "doctor", "--fail-on", failOn, "-o", "json", "--kubeconfig", kubeconfig)
			if code != want || errOut != "" || !json.Valid([]byte(out)) {
				t.Errorf("%s: %d, want %d: %s\n%s", name, code, want, errOut, out)
			}
		}
	}
	if _, _, errOut := call(t.Context(), "doctor", "--fail-on", "ok"); !strings.Contains(errOut, "must be warning or critical") {
		t.Errorf("--fail-on ok: %s", errOut)
	}
}

// With rights to nothing there is a report, which says what is missing; TestMissing has the words.
func TestReportWithoutRights(t *testing.T) {
	for _, resources := range []string{"", "*"} {
		c := scene.Healthy()
		c.Forbidden = []string{resources}
		path := filepath.Join(t.TempDir(), "report.zip")
		_, out, errOut := call(t.Context(), "report", "-f", path, "--kubeconfig", c.Start(t))
		if errOut != "" || !strings.HasPrefix(out, path+": ") || strings.Contains(out, "are missing: see MANIFEST.txt") != (resources != "") {
			t.Errorf("%q: %s%s", resources, out, errOut)
		}
	}
}
