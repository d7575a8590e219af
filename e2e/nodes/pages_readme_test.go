package nodes

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// pageImages reports whether all images of the cluster are those of a reader's kustomization.
var pageImages bool

// storage is the directory that the README has its reader make, beside the checkout.
var storage string

// leaveStorage removes what the README made: its two files by their names, and the directory only if it is empty then.
func leaveStorage(t *testing.T) {
	if storage == "" {
		return
	}
	dir := filepath.Join(root, storage)
	for _, name := range []string{"kustomization.yaml", "kustomization.yaml.bak", ""} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	storage = ""
}

// followReadme follows README.md up to the pod that writes: what it makes is what the other pages apply. The agent of
// hostPath volumes, which runs for the other tests, gets the image in the same way.
func followReadme(s *harness.Scene) {
	top, err := filepath.Abs(root)
	must(s, "the top of the tree", err)
	dir, err := os.MkdirTemp(filepath.Dir(top), "my-storage-")
	must(s, "a directory beside the checkout", err)
	must(s, "the README makes it", os.Remove(dir))
	storage = "../" + filepath.Base(dir)
	_, err = kubectl("", "apply", "-k", overlay(s, "legacy", chartRepository, chartTag))
	must(s, "the agent of hostPath volumes", err)
	r := follow(s, "README.md")
	r.run("STORAGE=")
	r.skip("make push", "TestPushedImageRuns pushes to a registry; the nodes have the image")
	r.run("mkdir")
	r.run("cat >")
	r.run("kubectl apply -k $STORAGE")
	awaitDrivers(s)
	csiReadme(nil, s)
	r.skip("make demo", "it starts a cluster")
	r.skip("make test", "it tests for a quarter of an hour")
	r.end()
}

// pullable checks that no workload has the image of the checkout, which no node can pull.
func (r *reader) pullable(command string) {
	r.Helper()
	if !pageImages {
		return
	}
	out, err := kubectl("", "-n", harness.Namespace, "get", "daemonsets,deployments", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.template.spec.containers[*].image}{"\n"}{end}`)
	if err != nil || strings.Contains(out, "registry.invalid") {
		r.Errorf("%s: after %s the images are\n%s%v", r.page, command, out, err)
	}
}

// pluginProgram returns the path of the plugin, which the image is built with.
func pluginProgram() string {
	top, err := filepath.Abs(root)
	if err != nil {
		top = root
	}
	return filepath.Join(top, "bin", "linux-"+runtime.GOARCH, "kubectl-hpp")
}
