// Package chart runs Helm on the chart of manifests/chart.
package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// helmVersion is the version of Helm that runs. It is built where it is missing, which takes
// minutes.
const helmVersion = "v4.3.1"

// Helm returns the path of the program.
func Helm(ctx context.Context) (string, error) {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tools", "helm-"+helmVersion)
	file := filepath.Join(dir, "helm")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	install := exec.CommandContext(ctx, "go", "install", "helm.sh/helm/v4/cmd/helm@"+helmVersion)
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return file, nil
}
