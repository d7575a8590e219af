// Package nodes tests the agent where it runs in earnest: as a DaemonSet's pod on two nodes with
// kubelet and containerd, from the image that make builds, with pods that use the volumes.
//
//	go -C e2e test ./nodes            # as root; uses the cluster that is up, or starts and ends one
package nodes

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// These are set before the first test and not changed.
var (
	env        *harness.Env
	local      *cluster.Cluster
	one, other *cluster.Node
	root       string // of the agent's module
	image      string // of the agent, as the manifests name it
)

// parallel is how many tests run at once unless -parallel says otherwise: they wait most of the
// time.
const parallel = "12"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel) // the flag exists and takes a number
	}
	ctx := context.Background()
	down, err := start(ctx)
	if err == nil {
		_, err = local.Take() // until the process ends
	}
	if err == nil {
		err = deploy(ctx)
	}
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, down()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// start finds the cluster that is up, or starts one. What it starts, down ends.
func start(ctx context.Context) (down func() error, err error) {
	keep := func() error { return nil }
	if root, err = filepath.Abs("../.."); err != nil {
		return keep, err
	}
	down = keep
	if local, err = cluster.Open(""); errors.Is(err, cluster.ErrNotUp) {
		down = func() error { return cluster.Down("", io.Discard) }
		local, err = cluster.Up(ctx, cluster.UpOptions{Version: os.Getenv("K8S_VERSION"), Nodes: 2, Log: os.Stderr})
	}
	if err != nil {
		return down, err
	}
	if n := len(local.Nodes()); n != 2 {
		return down, fmt.Errorf("the cluster that is up has %d nodes, these tests want 2: run 'make cluster-down' first", n)
	}
	one, other = local.Nodes()[0], local.Nodes()[1]
	env = &harness.Env{Plane: local.ControlPlane()}
	env.Client, err = env.Plane.Client()
	return down, err
}

// deploy puts the agent as it is now in the tree onto the nodes.
func deploy(ctx context.Context) (err error) {
	if image, err = manifestImage(filepath.Join(root, "manifests", "legacy")); err != nil {
		return err
	}
	archive, err := buildImage(ctx, image)
	if err != nil {
		return err
	}
	if err := local.Load(ctx, archive); err != nil {
		return err
	}
	// The demo leaves an agent that serves both kinds of claims and has the pool, and that agent's
	// other pool in it.
	if _, err := kubectl("", "-n", harness.Namespace, "delete", "daemonset", csiSet, "--ignore-not-found", "--cascade=foreground"); err != nil {
		return err
	}
	for _, n := range local.Nodes() {
		if _, err := onNode(n, "rm", "-rf", "/var/hpvolumes/csi"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		// An agent that is there already has the image of before, under the same name.
		{"-n", harness.Namespace, "delete", "pod", "-l", agentLabel},
		{"apply", "-k", filepath.Join(root, "manifests", "legacy")},
		{"-n", harness.Namespace, "rollout", "status", "daemonset/" + agentSet, "--timeout=180s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			return err
		}
	}
	return nil
}

// buildImage builds the image as users build it, and returns its archive.
func buildImage(ctx context.Context, name string) (archive string, err error) {
	if out, err := exec.CommandContext(ctx, "make", "-C", root, "--no-print-directory", "image", "IMAGE="+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make image: %w\n%s", err, out)
	}
	operator, err := os.ReadFile(filepath.Join(root, "bin", "linux-"+runtime.GOARCH, "hostpath-operator"))
	if err == nil && bytes.Contains(operator, []byte("HPP_DIVIDE_TIMES")) {
		err = errors.New("the operator reads HPP_DIVIDE_TIMES: programs that are released are built without the tag faults")
	}
	return filepath.Join(root, "_artifacts", "hostpath-provisioner.tar"), err
}

// manifestImage returns the image of the DaemonSet of a kustomization.
func manifestImage(dir string) (string, error) {
	out, err := kubectl("", "kustomize", dir)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^ +image: (.+)$`).FindAllStringSubmatch(out, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("%s: %d images, want one", dir, len(found))
	}
	return found[0][1], nil
}

// kubectl runs the cluster's kubectl as its administrator, and returns what it printed.
func kubectl(stdin string, args ...string) (string, error) { return env.Plane.Kubectl(stdin, args...) }

// soon is how long the cluster may take for one thing, on a machine that is busy.
const soon = 120 * time.Second
