package plugin_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

var update = flag.Bool("update", false, "write the golden outputs in testdata")

// commands are those that read the cluster, each with the formats that it has.
var commands = []struct{ call, formats string }{
	{"status", "table wide json yaml"}, {"df", "table wide json yaml"}, {"pools", "table wide name json yaml"}, {"volumes -A", "table wide name json yaml"},
	{"top", "table wide json yaml"}, {"orphans", "table wide name json yaml"}, {"trash", "table wide name json yaml"}, {"disks", "table wide name json yaml"},
	{"migrate status -A", "table wide name json yaml"}, {"node node-01", "table wide json yaml"}, {"version", "table json yaml"},
	{"explain data", "table json yaml"}, {"explain new", "table json yaml"}, {"doctor", "table wide json yaml"}, {"doctor --fail-on=critical", "table json"},
}

// call runs the plugin and returns its code and what it prints.
func call(ctx context.Context, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	c := plugin.Command("v1", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	text := stderr.String()
	if err != nil && !plugin.Quiet(err) {
		text += fmt.Sprintf("error: %v\n", err)
	}
	return plugin.ExitCode(err), stdout.String(), text
}

// runPlugin runs the plugin with a kubeconfig and returns all that it prints.
func runPlugin(ctx context.Context, kubeconfig string, args ...string) string {
	_, out, errOut := call(ctx, append(args, "--kubeconfig", kubeconfig)...)
	return out + errOut
}

// answering is the URL of a server that answers everything with the code.
func answering(t *testing.T, code int) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(server.Close)
	return server.URL
}

// Each command in each format, on a cluster that is well, on one of which much is unknown, and without
// an answer: then there is nothing on stdout, which a script could take for an empty, healthy cluster.
func TestGolden(t *testing.T) {
	for state, kubeconfig := range map[string]string{"healthy": scene.Healthy().Start(t), "partly": partly().Start(t), "none": scene.Kubeconfig(t, answering(t, http.StatusUnauthorized))} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, c := range commands {
				for format := range strings.FieldsSeq(c.formats) {
					code, out, errOut := call(t.Context(), append(strings.Fields(c.call), "-o", format, "--timeout", "5m", "--kubeconfig", kubeconfig)...)
					if state == "none" && (code != 1 || out != "") {
						t.Errorf("%s -o %s: code %d, stdout %q", c.call, format, code, out)
					}
					fmt.Fprintf(&got, "$ kubectl hpp %s -o %s\n%s%s# %d\n\n", c.call, format, out, errOut, code)
				}
			}
			golden(t, state+".txt", withoutTimes(got.String()))
		})
	}
}

// Each command that reads the cluster is one of them. Those that write have tests of their own.
func TestEveryCommandHasGoldens(t *testing.T) {
	for _, words := range leaves(plugin.Command("v1", genericiooptions.NewTestIOStreamsDiscard())) {
		has := slices.ContainsFunc(commands, func(c struct{ call, formats string }) bool {
			return strings.HasPrefix(c.call, strings.Join(words, " "))
		})
		if writes := words[0] == "report" || words[0] == "recover" || words[0] == "undelete"; has == writes {
			t.Errorf("%s: in the table of commands: %t", words, has)
		}
	}
}

// Tables of one node or pool, and what remains of each with fewer rights or objects.
func TestGoldenParts(t *testing.T) {
	noAgents, shared := partly(), scene.Healthy()
	scene.Drop[corev1.Pod](noAgents)
	// Pools of one filesystem, a node that went from under its agent, and the space of a node that does not exist.
	shared.Pools["node-01"] = append(shared.Pools["node-01"], slow())
	shared.Pools["node-01"][1].Pool.Filesystem, shared.Pools["node-01"][1].Space = "8:1", shared.Pools["node-01"][0].Space
	scene.Drop[corev1.Node](shared, "node-02")
	template := scene.Get[storagev1.CSIStorageCapacity](shared, "local-node-01").DeepCopy()
	template.Name, template.Labels = "template", map[string]string{contract.LabelTemplateNode: "true"}
	template.NodeTopology.MatchLabels = map[string]string{contract.LabelTemplateNode: "true"}
	shared.Add(template)
	for _, row := range []struct {
		name    string
		cluster *scene.Cluster
		calls   []string
	}{
		{"parts", partly(), []string{"pools fast", "pools none", "pools --node node-03", "pools --node node-09", "pools --no-headers", "pools fast --node node-01 -o json", "pools -o jsonpath",
			"volumes", "volumes -A --node node-01", "volumes -A --pool fast", "volumes -A --class none", "volumes -A --unused --node node-01", "volumes -A --without-quota", "volumes -n empty --node node-01",
			"status -v", "migrate status", "migrate status -n vms -o name", "node node-03", "node node-04 -o wide", "node node-05", "node node-09", "node node-02 -o name", "node"}},
		{"tenant", tenant(), []string{"status", "status -o json", "df", "df -o json", "version", "version -o json", "pools", "volumes", "volumes -o json", "volumes --unused", "top", "top -o json",
			"orphans", "trash", "migrate status", "disks", "node node-01", "node node-01 -o json"}},
		{"shared", shared, []string{"status", "status -o wide", "df", "top", "pools"}},
		{"noexec", forbidden("pods/exec"), []string{"pools", "volumes -A", "volumes -A --without-quota", "top", "orphans", "trash", "migrate status -A", "disks", "node node-01"}},
		{"noagents", noAgents, []string{"pools", "volumes -A", "top", "orphans", "trash", "migrate status -A", "disks", "node node-01"}},
		{"empty", &scene.Cluster{Minor: "34"}, []string{"pools", "volumes", "volumes -A", "top", "orphans", "trash", "migrate status", "disks", "node a", "explain a", "doctor"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := row.cluster.Start(t)
			var got strings.Builder
			for _, c := range row.calls {
				fmt.Fprintf(&got, "$ kubectl hpp %s\n%s\n", c, runPlugin(t.Context(), kubeconfig, append(strings.Fields(c), "--timeout", "5m")...))
			}
			golden(t, row.name+".txt", withoutTimes(got.String()))
		})
	}
}

// times are those of JSON, YAML and ages in seconds, which differ each time.
var times = regexp.MustCompile(`"?\b20\d\d-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"?|\b\d+s\b`)

func withoutTimes(text string) string { return times.ReplaceAllString(text, "TIME") }

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./controller/plugin -run TestGolden -update writes it. It is now\n%s", file, got)
	}
}

// Without any answer each command fails, and says why.
func TestWithoutAnAnswer(t *testing.T) {
	const closed = "http://127.0.0.1:1" // a port that was closed just now may be the next server's
	for why, url := range map[string]string{"connect": closed, "does not accept the login": answering(t, http.StatusUnauthorized), "502": answering(t, http.StatusBadGateway)} {
		kubeconfig := scene.Kubeconfig(t, url)
		for _, c := range commands {
			code, out, errOut := call(t.Context(), append(strings.Fields(c.call), "--kubeconfig", kubeconfig)...)
			if code != 1 || out != "" || !strings.Contains(errOut, why) {
				t.Errorf("%s: code %d, stdout %.80q, stderr %.200q", c.call, code, out, errOut)
			}
		}
		if code, out, _ := call(t.Context(), "version", "--client", "--kubeconfig", kubeconfig); code != 0 || out == "" {
			t.Errorf("version --client: code %d, stdout %q", code, out)
		}
	}
}

// What is unknown has its reason in each format, and the rest is printed: the code is 0, but for doctor,
// whose verdict is then unknown whatever --fail-on is.
func TestPartlyUnknown(t *testing.T) {
	silent := partly()
	silent.Exec = func(string, []string) scene.Answer {
		return scene.Answer{Unreachable: "error dialing backend: no route"}
	}
	for why, c := range map[string]*scene.Cluster{"may not run commands": forbidden("pods/exec"), "may not list": tenant(), "error dialing backend": silent} {
		kubeconfig := c.Start(t)
		for _, c := range commands {
			// The reading of objects shows the version, and where a bound volume is.
			needless := why != "may not list" && (c.call == "version" || strings.HasPrefix(c.call, "explain"))
			for format := range strings.FieldsSeq(c.formats) {
				code, out, errOut := call(t.Context(), append(strings.Fields(c.call), "-o", format, "--kubeconfig", kubeconfig)...)
				fails := strings.HasPrefix(c.call, "doctor") || strings.HasPrefix(c.call, "explain") && why == "may not list" // which has no claim then
				if fails != (code != 0) || !needless && !strings.Contains(out+errOut, strings.Replace(why, "list", map[bool]string{true: "get", false: "list"}[strings.HasPrefix(c.call, "explain")], 1)) {
					t.Errorf("%s -o %s: code %d, %.400s %s", c.call, format, code, out, errOut)
				}
			}
		}
	}
}

// The provisioner of the project before runs with the labels, the container and the path of an agent. No
// command runs it a second time, it is shown as unknown, and counted so.
func TestNothingRunsInAnotherProgram(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	c := partly()
	c.Exec = func(pod string, command []string) scene.Answer {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, pod)
		return c.Answer(pod, command)
	}
	foreign := scene.AgentPod("node-04")
	foreign.Annotations = nil
	c.Add(foreign)
	kubeconfig := c.Start(t)
	for _, command := range commands {
		out := runPlugin(t.Context(), kubeconfig, strings.Fields(command.call)...)
		counts := map[string]string{"status": "3 of 5 agents ready, 1 pod unknown", "doctor": "no agent that this plugin knows", "pools": "no agent that this plugin knows"}
		if want := counts[command.call]; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", command.call, want, out)
		}
	}
	if slices.Contains(ran, "agent-node-04") || len(ran) == 0 {
		t.Errorf("commands ran in %q", ran)
	}
}

// Without a terminal, --watch prints again only when something has changed.
func TestMigrateWatch(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	c, asked := partly(), 0
	var mu sync.Mutex
	c.Exec = func(pod string, command []string) scene.Answer {
		mu.Lock()
		defer mu.Unlock()
		if pod != "agent-node-02" {
			return c.Answer(pod, command)
		}
		r := local()
		switch asked++; {
		case asked == 4:
			interrupt()
		case asked > 2:
			r.Volumes[1].Migration.Stopped = "another reason"
		}
		return scene.JSON(r)
	}
	got := runPlugin(ctx, c.Start(t), "migrate", "status", "-A", "--watch", "--timeout", "5m")
	if tables, changed := strings.Count(got, "NAMESPACE"), strings.Count(got, "another reason"); tables != 2 || changed != 1 || strings.Contains(got, "error: ") {
		t.Errorf("%d tables, of which %d have the change:\n%s", tables, changed, got)
	}
}

// Who may run commands in the pods of one of two installations sees the pools of that one, and why those
// of the other are unknown.
func TestTwoInstallations(t *testing.T) {
	c := scene.Healthy()
	second := scene.AgentPod("node-02")
	second.Namespace, second.Name = "second", "agent-second"
	c.Add(second)
	scene.Drop[corev1.Pod](c, "agent-node-02")
	c.Forbidden = []string{"second/pods/exec"}
	code, out, errOut := call(t.Context(), "status", "--kubeconfig", c.Start(t))
	for _, want := range []string{"3 of 3 agents ready, 1 pool", "node-01   yes     ready", "10Gi        50Gi   100Gi",
		"node-02: its pools are unknown: may not run commands in the agents' pods (create pods/exec in the namespace second)"} {
		if code != 0 || errOut != "" || !strings.Contains(out, want) {
			t.Errorf("code %d, without %q: %s\n%s", code, want, errOut, out)
		}
	}
}
