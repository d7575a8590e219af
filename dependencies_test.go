package layers

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// direct are the modules this one may depend on directly, each with its reason.
var direct = map[string]string{
	"github.com/container-storage-interface/spec":          "the CSI services",
	"github.com/kubernetes-csi/csi-lib-utils":              "keeps secrets out of logged CSI messages",
	"github.com/prometheus/client_golang":                  "metrics",
	"github.com/prometheus/client_model":                   "the plugin of kubectl: agents' metrics",
	"github.com/prometheus/common":                         "the plugin of kubectl: reads agents' metrics",
	"github.com/spf13/cobra":                               "the plugin of kubectl: commands",
	"github.com/spf13/pflag":                               "flags",
	"golang.org/x/sys":                                     "system calls",
	"golang.org/x/term":                                    "the plugin of kubectl: the width of a terminal",
	"google.golang.org/grpc":                               "the CSI services",
	"google.golang.org/protobuf":                           "wrapped values in CSI messages",
	"gopkg.in/evanphx/json-patch.v4":                       "the simulation's API server: patches as the real one applies them",
	"k8s.io/api":                                           "Kubernetes' types",
	"k8s.io/apimachinery":                                  "Kubernetes' types",
	"k8s.io/cli-runtime":                                   "the plugin of kubectl: kubeconfig and its flags",
	"k8s.io/client-go":                                     "the API server",
	"k8s.io/component-helpers":                             "the plugin of kubectl: which nodes a pod may use",
	"k8s.io/klog/v2":                                       "logging",
	"k8s.io/kubelet":                                       "the kubelet's plugin registration service",
	"k8s.io/streaming":                                     "the plugin of kubectl: whether a connection to a pod was refused",
	"k8s.io/utils":                                         "maps of bounded size, least recently used first",
	"pgregory.net/rapid":                                   "tests of the storage library by random calls, with the shortest story of a failure",
	"sigs.k8s.io/controller-runtime":                       "the operator: cache, lease, queue",
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10": "the provisioner",
	"sigs.k8s.io/structured-merge-diff/v6":                 "the operator: who owns which field of an object",
	"sigs.k8s.io/yaml":                                     "inspect of raw disks, the operator's objects, tests of manifests",
}

func TestDirectDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if direct[path] == "" {
			t.Errorf("%s is a new direct dependency; say in this table what for", path)
		}
	}
}

// A dependency that calls methods by name keeps the linker from dropping any:
// with it the agent is twice as large.
func TestAgentStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "./cmd/hostpath-provisioner").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for p := range strings.FieldsSeq(string(out)) {
		if p == "text/template" || strings.HasPrefix(p, "sigs.k8s.io/controller-runtime") {
			t.Errorf("the agent depends on %s; go mod why, and leave that out", p)
		}
	}
}

// What the plugin of kubectl needs runs on computers of people, not on nodes.
func TestAgentsLeaveOutThePlugin(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", "./cmd/hostpath-provisioner", "./cmd/hostpath-operator").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for p := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(p, "github.com/spf13/cobra") || strings.HasPrefix(p, "k8s.io/cli-runtime") || strings.HasPrefix(p, module+"/controller/plugin") {
			t.Errorf("an agent or the operator depends on %s", p)
		}
	}
}

// The tests see what users see: binaries, sockets, the cluster and manifests.
func TestEndToEndTestsSeeNoInsides(t *testing.T) {
	mod, err := os.ReadFile("e2e/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		if fields := strings.Fields(line); slices.Contains(fields, module) {
			t.Errorf("e2e/go.mod: %s; e2e never imports volume or controller", strings.TrimSpace(line))
		}
	}
}

// ahead are the modules whose version e2e/go.mod may have above that of go.mod, each with the
// Kubernetes module that requires it.
var ahead = map[string]string{}

// The end-to-end tests link what the product links. The go command compiles a module once for both
// only if they have the same version of it, and of all that it imports.
func TestModulesHaveOneVersion(t *testing.T) {
	product, tests := required(t, "go.mod"), required(t, "e2e/go.mod")
	shared := 0
	for path, version := range tests {
		want, ok := product[path]
		if !ok {
			continue
		}
		shared++
		if why := ahead[path]; version == want && why != "" {
			t.Errorf("%s is %s in both: remove it from the exceptions of this test", path, version)
		} else if version != want && why == "" {
			t.Errorf("%s is %s in go.mod and %s in e2e/go.mod: run `go get %s@VERSION && go mod tidy` with one version in both", path, want, version, path)
		}
	}
	if shared == 0 {
		t.Error("go.mod and e2e/go.mod have no module in common")
	}
}

// required returns the versions by module that a go.mod requires, directly or not.
func required(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)`).FindAllStringSubmatch(string(text), -1) {
		versions[m[1]] = m[2]
	}
	return versions
}
