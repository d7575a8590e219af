// Package chart runs Helm and helm-docs on the chart of manifests/chart.
package chart

import (
	"context"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

var (
	helmTool = cluster.Tool{Name: "helm", Package: "helm.sh/helm/v4/cmd/helm", Version: "v4.3.1"}
	docsTool = cluster.Tool{Name: "helm-docs", Package: "github.com/norwoodj/helm-docs/cmd/helm-docs", Version: "v1.14.2"}
)

// Helm returns the path of the program. The first build of it takes minutes.
func Helm(ctx context.Context) (string, error) { return helmTool.Path(ctx) }
