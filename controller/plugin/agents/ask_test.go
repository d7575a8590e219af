package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// A node that does not answer costs no more than the timeout, and is an answer with the reason. The
// others are complete, in their order.
func TestPools(t *testing.T) {
	var agents []cluster.Agent
	for i := range 3 * atOnce {
		agents = append(agents, cluster.Agent{Node: fmt.Sprintf("node-%03d", i), Namespace: "hpp", Pod: fmt.Sprint("p", i), Container: "c", Process: cluster.NodeAgent})
	}
	agents[5].Container = ""
	agents[6].Process = cluster.DiskAgent
	var most, now, calls atomic.Int64
	ask := Asker{Timeout: 200 * time.Millisecond, Exec: func(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		switch pod {
		case "p1":
			<-ctx.Done()
			return nil, ctx.Err()
		case "p2":
			return []byte(`{"version":1,"pool":{"name":"half"}}`), errors.New("inspect: the disk of pool fast does not answer")
		case "p3":
			return []byte("no such command"), nil
		case "p4":
			return []byte(`{"version":7}`), nil
		case "p7":
			return []byte(`{"version":1,"pool":{"na`), nil
		case "p8":
			return nil, errors.New("command terminated with exit code 137")
		}
		if got := strings.Join(command, " "); got != "/hostpath-provisioner inspect -o json" || namespace != "hpp" || container != "c" {
			t.Errorf("%s/%s %s: %s", namespace, pod, container, got)
		}
		return []byte(`{"version":1,"pool":{"name":"a"}}` + "\n" + `{"pool":{"name":"b"},"new":{}}`), nil
	}, Progress: func(done, all int) { calls.Add(1) }}
	begin := time.Now()
	pools := ask.Pools(t.Context(), agents)
	if took := time.Since(begin); took > 20*ask.Timeout {
		t.Errorf("it took %s", took)
	}
	if len(pools) != len(agents)-1 || int(calls.Load()) != len(agents)-1 || most.Load() > atOnce {
		t.Errorf("%d answers, %d calls of progress, %d at once", len(pools), calls.Load(), most.Load())
	}
	for i, want := range []struct {
		reports int
		problem string
	}{{2, ""}, {0, "no answer within 200ms (--timeout)"}, {1, "the disk of pool fast does not answer"}, {0, "the output of inspect is no JSON"},
		{0, "the report has version 7, and this program reads up to 1: use the kubectl-hpp of the agent's release"}, {0, "pod p5 has no container of the agent"}, {0, "the output of inspect is no JSON"}, {0, "exit code 137"}, {2, ""}} {
		if p := pools[i]; len(p.Reports) != want.reports || !strings.Contains(p.Problem, want.problem) || (p.Problem == "") != (want.problem == "") {
			t.Errorf("%s: %d reports, problem %q, want %+v", p.Agent.Node, len(p.Reports), p.Problem, want)
		}
	}
}

// If the user ends the program, no agent is blamed for that.
func TestEndedByUser(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask := Asker{Timeout: time.Minute, Exec: func(ctx context.Context, _, _, _ string, _ ...string) ([]byte, error) {
		return nil, ctx.Err()
	}}
	if got := ask.Ask(ctx, []cluster.Agent{{Pod: "p", Container: "c"}}, "inspect"); got[0].Problem != context.Canceled.Error() {
		t.Errorf("%+v", got)
	}
}
