package plugin_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	"kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// commands are those that read the cluster, each with the formats that it has.
var commands = []struct {
	call    string
	formats []string
}{
	{"status", []string{"table", "wide", "json", "yaml"}}, {"df", []string{"table", "wide", "json", "yaml"}},
	{"pools", []string{"table", "wide", "name", "json", "yaml"}}, {"volumes -A", []string{"table", "wide", "name", "json", "yaml"}},
	{"top", []string{"table", "wide", "json", "yaml"}}, {"orphans", []string{"table", "wide", "name", "json", "yaml"}},
	{"trash", []string{"table", "wide", "name", "json", "yaml"}}, {"disks", []string{"table", "wide", "name", "json", "yaml"}},
	{"migrate status -A", []string{"table", "wide", "name", "json", "yaml"}}, {"node node-01", []string{"table", "wide", "json", "yaml"}},
	{"version", []string{"table", "json", "yaml"}}, {"explain data", []string{"table", "json", "yaml"}},
	{"doctor", []string{"table", "wide", "json", "yaml"}}, {"doctor --fail-on=critical", []string{"table", "json"}},
}

// call runs the plugin and returns its code and what it prints.
func call(t *testing.T, kubeconfig, args string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := plugin.Command("v1", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	c.SetArgs(append(strings.Fields(args), "--kubeconfig", kubeconfig))
	err := c.ExecuteContext(t.Context())
	text := stderr.String()
	if err != nil {
		text += err.Error()
	}
	return plugin.ExitCode(err), stdout.String(), text
}

func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", Namespace: "shop"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// Without any answer each command fails with 1, in each format, and prints nothing that a script could
// take for an empty, healthy cluster.
func TestWithoutAnAnswer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	answering := func(code int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, row := range map[string]struct{ url, why string }{
		"no server":        {closed.URL, "connect"},
		"an expired login": {answering(http.StatusUnauthorized), "does not accept the login"},
		"a failing proxy":  {answering(http.StatusBadGateway), "502"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := kubeconfigOf(t, row.url)
			for _, c := range commands {
				for _, format := range c.formats {
					code, out, errOut := call(t, kubeconfig, c.call+" -o "+format)
					if code != 1 || out != "" || !strings.Contains(errOut, row.why) {
						t.Errorf("%s -o %s: code %d, stdout %.80q, stderr %.200q", c.call, format, code, out, errOut)
					}
				}
			}
			if code, out, _ := call(t, kubeconfig, "version --client"); code != 0 || out == "" {
				t.Errorf("version --client: code %d, stdout %q", code, out)
			}
		})
	}
}

// The provisioner of the project before runs with the labels, the container and the path of an agent. No
// command runs it a second time, it is shown as unknown, and counted so.
func TestNothingRunsInAnotherProgram(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	c := scene()
	c.Exec = func(pod string, command []string) plugintest.Answer {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, pod)
		return answerOf(pod, command)
	}
	foreign := agentPod("agent", "node-04", true)
	foreign.Name, foreign.Annotations = "foreign", nil
	c.Objects = append(c.Objects, foreign)
	kubeconfig := c.Start(t)
	for _, command := range commands {
		_, out, errOut := call(t, kubeconfig, command.call+" -o "+command.formats[0])
		counts := map[string]string{"status": "3 of 5 agents ready, 1 pod unknown", "doctor": "no agent that this plugin knows", "pools": "no agent that this plugin knows"}
		if want := counts[command.call]; !strings.Contains(out+errOut, want) {
			t.Errorf("%s does not say %q:\n%s", command.call, want, out)
		}
	}
	if slices.Contains(ran, "foreign") || len(ran) == 0 {
		t.Errorf("commands ran in %q", ran)
	}
}

// What is unknown has its reason in each format, and the rest is printed: the code is 0, but for doctor,
// whose verdict is then unknown whatever --fail-on is.
func TestPartlyUnknown(t *testing.T) {
	silent := scene()
	silent.Exec = func(string, []string) plugintest.Answer {
		return plugintest.Answer{Unreachable: "error dialing backend: no route"}
	}
	noExec, tenant := scene(), scene()
	noExec.Forbidden = []string{"pods/exec"}
	tenant.Forbidden = []string{"pods/exec", "nodes", "persistentvolumes", "pods", "csistoragecapacities"}
	needsNoPools := []string{"version", "explain data"}
	for name, row := range map[string]struct {
		cluster plugintest.Cluster
		why     string
		without []string // commands for which nothing is unknown
	}{
		"no exec": {noExec, "may not run commands", needsNoPools}, "a tenant": {tenant, "may not list", nil},
		"silent agents": {silent, "error dialing backend", needsNoPools},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := row.cluster.Start(t)
			for _, c := range commands {
				if c.call == "explain data" || slices.Contains(row.without, c.call) {
					continue // the scene has no claim, for which an administrator's PV is enough
				}
				for _, format := range c.formats {
					code, out, errOut := call(t, kubeconfig, c.call+" -o "+format)
					if doctor := strings.HasPrefix(c.call, "doctor"); doctor != (code != 0) || !strings.Contains(out+errOut, row.why) {
						t.Errorf("%s -o %s: code %d, %.400s %s", c.call, format, code, out, errOut)
					}
				}
			}
		})
	}
}
