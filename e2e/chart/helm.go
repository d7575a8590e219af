// Package chart runs Helm and helm-docs on the chart of manifests/chart.
package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// tool is a program that is built from its module where it is missing.
type tool struct{ name, module, version string }

var (
	helmTool = tool{"helm", "helm.sh/helm/v4/cmd/helm", "v4.3.1"}
	docsTool = tool{"helm-docs", "github.com/norwoodj/helm-docs/cmd/helm-docs", "v1.14.2"}
)

// Helm returns the path of the program. The first build of it takes minutes.
func Helm(ctx context.Context) (string, error) { return helmTool.path(ctx) }

func (t tool) path(ctx context.Context) (string, error) {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tools", t.name+"-"+t.version)
	file := filepath.Join(dir, t.name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	install := exec.CommandContext(ctx, "go", "install", t.module+"@"+t.version)
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", t.name, err, out)
	}
	return file, nil
}
