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
	s := c.Serve(t)
	reader := s.Reader()
	return reader, s.Ask(reader)
}

// Reader returns what reads the API server.
func (s *Server) Reader() cluster.Reader {
	clock, config := &cluster.Clock{}, s.Config()
	config.Wrap(clock.Wrap)
	return cluster.Reader{Client: kubernetes.NewForConfigOrDie(config), Clock: clock}
}

// Ask returns what asks the agents, if the user may.
func (s *Server) Ask(r cluster.Reader) agents.AskPools {
	asker := agents.Asker{Exec: agents.NewExec(s.Config(), r.Client), Timeout: time.Minute}
	return func(ctx context.Context, of []cluster.Agent) ([]agents.Pools, string) {
		if why := r.MayExec(ctx, "hpp"); why != "" {
			return nil, why
		}
		return asker.Pools(ctx, of), ""
	}
}
