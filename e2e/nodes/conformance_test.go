package nodes

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/conformance"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The storage tests of Kubernetes against the driver as it is deployed, in its two forms. No other
// test runs meanwhile. Without -short only, as they take minutes to build and to run: make
// conformance.
func TestConformance(t *testing.T) {
	tests, err := cluster.BuildConformance(t.Context(), local.ControlPlane().Version(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	archives, err := tests.WriteImages(t.Context(), t.TempDir())
	for _, archive := range archives {
		err = errors.Join(err, local.Load(t.Context(), archive))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { undeployCSI(t) })
	for _, form := range []struct {
		name string
		csiForm
	}{{"csi", csiAlone}, {"csi-sidecars", csiWithSidecar}} {
		t.Run(form.name, func(t *testing.T) {
			if form.name == "csi-sidecars" {
				loadSidecar(t)
			}
			form.deploy(t)
			if form.name == "csi-sidecars" {
				// The page of this form says so: the sidecar knows nothing of the agents' objects.
				if _, err := kubectl("", "-n", harness.Namespace, "delete", "csistoragecapacities", "-l", harness.LabelNode); err != nil {
					t.Fatal(err)
				}
			}
			conforms(t, tests, form.name)
			form.permitted(t)
		})
	}
}

// conforms runs the specs of the driver that is deployed, and compares what they did with the lists.
func conforms(t *testing.T, tests cluster.Conformance, form string) {
	lists, err := conformance.Committed()
	if err != nil {
		t.Fatal(err)
	}
	lists = lists.For(form, os.Getenv("FULL") != "")
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(t.Context(), tests.Test, "--kubeconfig="+local.ControlPlane().Kubeconfig(), "--provider=local",
		"--repo-root="+root, // of the class that driver.yaml names
		"--storage.testdriver="+filepath.Join(root, "e2e", "conformance", "driver.yaml"),
		"--ginkgo.focus="+regexp.QuoteMeta("[Driver: "+conformance.Driver+"]"), "--ginkgo.skip="+lists.Skip(),
		"--ginkgo.json-report="+report, "--ginkgo.no-color", "--ginkgo.timeout=1h")
	cmd.Dir = dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	ended := cmd.Run() // a spec that fails is in the report
	file, err := os.Open(report)
	if err != nil {
		t.Fatalf("the tests ended without a report: %v\n%s", ended, tail(log))
	}
	defer func() { _ = file.Close() }()
	specs, err := conformance.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := lists.Table(&table, specs); err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s\n%s", local.ControlPlane().Version(), &table)
	for _, fault := range lists.Faults(specs) {
		t.Error(fault)
	}
	if t.Failed() {
		t.Logf("the last lines of the tests:\n%s", tail(log))
	}
}

// tail returns the end of a file.
func tail(f *os.File) string {
	const most = 64 << 10 // bytes
	end, _ := f.Seek(0, io.SeekEnd)
	text := make([]byte, min(end, most))
	n, _ := f.ReadAt(text, end-int64(len(text)))
	return string(text[:n])
}
