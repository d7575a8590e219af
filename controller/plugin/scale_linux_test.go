package plugin_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// asPlugin is the variable by which this test program runs as the plugin. Its value is a file that
// gets the memory that it took at most, as proc_pid_status(5) has it: the largest size in a rusage
// may be that of the program which started it.
const asPlugin = "HPP_TEST_AS_PLUGIN"

func TestMain(m *testing.M) {
	file := os.Getenv(asPlugin)
	if file == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := plugin.Command("v1", genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(file, status, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// memory returns how many MiB the plugin took at most.
func memory(b *testing.B, file string) float64 {
	status, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(after + " none")[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// large is a cluster of nodes with as many volumes on each, of which the first nodes never answer.
func large(nodes, volumes, dead int) *scene.Cluster {
	c := scene.Healthy()
	c.Objects, c.Pools = nil, map[string][]inspect.Report{}
	for i := range nodes {
		node := fmt.Sprintf("node-%04d", i)
		c.AddNode(node)
		r := &c.Pools[node][0]
		for v := range volumes {
			name := fmt.Sprintf("pvc-%08d-0f8b-4f5e-8a39-3c1f6f0d8a11", i*volumes+v)
			claim := fmt.Sprintf("data-%d-%d", i, v)
			c.Add(scene.CSIPV(name, node, "shop", claim), scene.Claim("shop", claim, name))
			r.Volumes = append(r.Volumes, scene.VolumeOf(name, "shop", claim, int64(v)*gib, 10*gib))
		}
		if i < dead {
			c.Prints["agent-"+node+" inspect"] = scene.Answer{Never: true}
		}
	}
	c.AddInstallation(int32(nodes))
	c.Add(scene.Claim("shop", "new", ""), scene.UserOf("web-0", "new", ""))
	return c
}

// A node that never answers costs at most --timeout, all of them together, also where agents are asked
// twice, and is a row with the reason. The others are complete.
func TestDeadNodes(t *testing.T) {
	t.Parallel()
	const nodes, dead, timeout = 50, 3, 10 * time.Second
	began := time.Now()
	got := runPlugin(t.Context(), large(nodes, 2, dead).Start(t), "orphans", "--timeout", timeout.String())
	if took := time.Since(began); took >= 2*timeout || strings.Count(got, "no answer within 10s (--timeout)") != dead {
		t.Errorf("it took %s with --timeout %s:\n%s", took, timeout, got)
	}
}

// BenchmarkScale measures the plugin, as a process of its own, on clusters with 10 volumes a node.
func BenchmarkScale(b *testing.B) {
	for _, row := range []struct {
		nodes, dead int
		args        string
	}{
		{1000, 0, "status"}, {1000, 0, "volumes -A"}, {1000, 0, "top"}, {1000, 0, "node node-0500"}, {1000, 0, "explain data-500-5"},
		{1000, 30, "volumes -A --timeout 2s"}, {1000, 300, "status --timeout 2s"},
		{100, 0, "explain new"}, {1000, 0, "explain new"}, {2000, 0, "explain new"}, {100, 0, "doctor"}, {1000, 0, "doctor"}, {2000, 0, "doctor"},
	} {
		b.Run(fmt.Sprintf("%s,%d nodes,%d dead", row.args, row.nodes, row.dead), func(b *testing.B) {
			kubeconfig := large(row.nodes, 10, row.dead).Start(b)
			runtime.GC()
			most, file := 0.0, filepath.Join(b.TempDir(), "status")
			for b.Loop() {
				c := exec.Command("/proc/self/exe", append(strings.Fields(row.args), "--kubeconfig", kubeconfig)...)
				c.Env = append(os.Environ(), asPlugin+"="+file)
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, os.Stderr
				if err := c.Run(); err != nil {
					b.Fatal(err)
				}
				if strings.HasPrefix(row.args, "volumes") && strings.Count(out.String(), "pvc-")+strings.Count(out.String(), "data-") < 10_000 {
					b.Errorf("%d bytes do not name all volumes", out.Len())
				}
				most = max(most, memory(b, file))
			}
			b.ReportMetric(most, "MiB")
		})
	}
}
