package plugin_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	"kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

var update = flag.Bool("update", false, "write the golden outputs in testdata")

// runPlugin runs the plugin with a kubeconfig and returns all that it prints.
func runPlugin(ctx context.Context, kubeconfig string, args ...string) string {
	return runArgs(ctx, append(args, "--kubeconfig", kubeconfig)...)
}

// runArgs runs the plugin with these arguments and returns all that it prints.
func runArgs(ctx context.Context, args ...string) string {
	var out, errOut bytes.Buffer
	c := plugin.Command("v1", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	c.SetArgs(args)
	text := ""
	if err := c.ExecuteContext(ctx); err != nil {
		text = fmt.Sprintf("error: %v\n", err)
	}
	if errOut.Len() > 0 {
		text += "stderr: " + errOut.String()
	}
	return out.String() + text
}

// Each table, in each output, on a cluster of which a node is dead and another has no agent.
func TestGolden(t *testing.T) {
	forbidden := func(resources ...string) plugintest.Cluster {
		c := scene()
		c.Forbidden = resources
		return c
	}
	for _, row := range []struct {
		name    string
		cluster plugintest.Cluster
		calls   []string
	}{
		{"pools", scene(), []string{"pools", "pools -o wide", "pools fast", "pools none", "pools --node node-03", "pools --node node-09",
			"pools --no-headers", "pools -o name", "pools fast --node node-01 -o json", "pools -o jsonpath"}},
		{"volumes", scene(), []string{"volumes", "volumes -A", "volumes -A -o wide", "volumes -A --node node-01", "volumes -A --pool fast",
			"volumes -A --class none", "volumes -A --unused --node node-01", "volumes -A --without-quota", "volumes -n empty --node node-01",
			"volumes -A -o name", "volumes --node node-01 -o yaml"}},
		{"top", scene(), []string{"top", "top -o wide"}},
		{"status", scene(), []string{"status", "status -v", "status -o json", "df", "df -o wide", "df -o json", "version", "version -o json"}},
		{"statustenant", forbidden("pods/exec", "nodes", "persistentvolumes", "pods", "csistoragecapacities", "persistentvolumeclaims"),
			[]string{"status", "status -o json", "df", "df -o json", "version", "version -o json", "volumes -o json", "top -o json", "node node-01 -o json"}},
		{"orphans", scene(), []string{"orphans", "orphans -o wide", "orphans -o name", "orphans -o json"}},
		{"trash", scene(), []string{"trash", "trash -o wide", "trash -o name"}},
		{"migrate", scene(), []string{"migrate status -A", "migrate status -A -o wide", "migrate status", "migrate status -n vms -o name"}},
		{"disks", scene(), []string{"disks", "disks -o wide", "disks -o name", "disks -o json"}},
		{"node", scene(), []string{"node node-01", "node node-03", "node node-04 -o wide", "node node-05", "node node-09", "node node-02 -o name", "node"}},
		{"noexec", forbidden("pods/exec"), []string{"pools", "volumes -A", "volumes -A --without-quota", "top", "orphans", "trash",
			"migrate status -A", "disks", "node node-01"}},
		{"tenant", forbidden("pods/exec", "nodes", "persistentvolumes", "pods", "csistoragecapacities", "persistentvolumeclaims"),
			[]string{"pools", "volumes", "volumes --unused", "top", "orphans", "trash", "migrate status", "disks", "node node-01"}},
		{"noagents", without[*corev1.Pod](scene()), []string{"pools", "volumes -A", "top", "orphans", "trash", "migrate status -A", "disks", "node node-01"}},
		{"empty", plugintest.Cluster{}, []string{"pools", "volumes", "volumes -A", "top", "orphans", "trash", "migrate status", "disks", "node a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := row.cluster.Start(t)
			var got strings.Builder
			for _, call := range row.calls {
				text := runPlugin(t.Context(), kubeconfig, append(strings.Fields(call), "--timeout", "5m")...)
				fmt.Fprintf(&got, "$ kubectl hpp %s\n%s\n", call, withoutTimes(text))
			}
			golden(t, row.name+".txt", got.String())
		})
	}
}

// withoutTimes replaces the times of JSON and YAML, which differ each time.
func withoutTimes(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		value, comma := strings.CutSuffix(strings.TrimSpace(value), ",")
		if _, err := time.Parse(time.RFC3339Nano, strings.Trim(value, `"`)); ok && err == nil {
			line = line[:strings.Index(line, key)] + key + ": TIME"
			if comma {
				line += ","
			}
			line += "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
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
