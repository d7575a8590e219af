package plugin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// screen returns what a command shows on a terminal of 100 columns, with its colors.
func screen(t *testing.T, c *scene.Cluster, args ...string) string {
	t.Helper()
	user, program := terminal(t, 50, 100)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	command := plugin.Command("v1", genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
	command.SetArgs(append(args, "--kubeconfig", c.Start(t), "--timeout", "5m"))
	ended := make(chan error, 1)
	go func() {
		ended <- command.ExecuteContext(ctx)
		_ = program.Close()
	}()
	shown, buffer := "\x1b[1m$ kubectl hpp "+strings.Join(args, " ")+"\x1b[0m\n", make([]byte, 64<<10)
	for {
		n, err := user.Read(buffer)
		shown += strings.ReplaceAll(string(buffer[:n]), "\r", "")
		if err != nil { // the program has closed its end
			break
		}
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	return shown
}

// The pictures of the documentation are drawn from these screens: after -update, draw them again as
// e2e/cmd/record says.
func TestScreens(t *testing.T) {
	wrong := partly()
	wrong.Prints["agent-node-03 inspect"] = scene.Answer{Unreachable: "error dialing backend: no route to host"}
	golden(t, "status.screen", screen(t, wrong, "status"))

	large := scene.Healthy()
	large.AddNode("node-03")
	large.AddNode("node-04")
	scene.Drop[corev1.Pod](large, "agent-node-04")
	large.Pools["node-03"] = []inspect.Report{local()}
	claim := large.Claim("new")
	claim.Annotations, claim.CreationTimestamp = nil, scene.Ago(scene.Days(2))
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("60Gi")
	large.Event("PersistentVolumeClaim", "new", "ProvisioningFailed", "60Gi requested, and no node has that much available in pool local: "+
		"the most is 50Gi, on node node-01, of 3 with that pool: request less, free space, or use a class with a larger pool").LastTimestamp = scene.Ago(scene.Days(2))
	golden(t, "explain.screen", screen(t, large, "explain", "new"))
}
