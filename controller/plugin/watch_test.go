package plugin_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// Without a terminal, --watch prints again only when something has changed.
func TestMigrateWatch(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c := scene()
	var asked atomic.Int64
	c.Exec = func(pod string, command []string) plugintest.Answer {
		if pod != "agent-node-02" {
			return answerOf(pod, command)
		}
		r := local()
		switch n := asked.Add(1); {
		case n == 4:
			interrupt()
		case n > 2:
			r.Volumes[1].Migration.Stopped = "another reason"
		}
		return printed(r)
	}
	got := runPlugin(ctx, c.Start(t), "migrate", "status", "-A", "--watch", "--timeout", "5m")
	if tables, changed := strings.Count(got, "NAMESPACE"), strings.Count(got, "another reason"); tables != 2 || changed != 1 || strings.Contains(got, "error: ") {
		t.Errorf("%d tables, of which %d have the change:\n%s", tables, changed, got)
	}
}
