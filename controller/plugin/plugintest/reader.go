package plugintest

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Reader starts the API server, which ends with the test, and returns what reads it and asks its agents,
// as a command of the plugin does.
func (c *Cluster) Reader(t testing.TB) (cluster.Reader, agents.AskPools) {
	t.Helper()
	clock, config := &cluster.Clock{}, c.Serve(t).Config()
	config.Wrap(clock.Wrap)
	reader := cluster.Reader{Client: kubernetes.NewForConfigOrDie(config), Clock: clock}
	ask := agents.Asker{Exec: agents.NewExec(config, reader.Client), Timeout: time.Minute}
	return reader, func(ctx context.Context, of []cluster.Agent) ([]agents.Pools, string) {
		if why := reader.MayExec(ctx, "hpp"); why != "" {
			return nil, why
		}
		return ask.Pools(ctx, of), ""
	}
}
