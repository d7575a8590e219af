package agents

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Dead nodes do not hold up the others for longer than they need to be noticed, and each costs the
// timeout at most.
func TestManyDeadNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead, all, timeout = 300, 1000, 10 * time.Second
		var of []cluster.Agent
		for i := range all {
			of = append(of, cluster.Agent{Pod: fmt.Sprintf("pod-%d", i), Container: "c"})
		}
		began := time.Now()
		var last atomic.Int64 // when the last agent that is well answered
		a := Asker{Timeout: timeout, Exec: func(ctx context.Context, _, pod, _ string, _ ...string) ([]byte, error) {
			if i, err := strconv.Atoi(strings.TrimPrefix(pod, "pod-")); err != nil || i < dead {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			last.Store(int64(time.Since(began)))
			return []byte("well"), nil
		}}
		well, late := 0, 0
		for _, answer := range a.Ask(t.Context(), of) {
			switch {
			case string(answer.Out) == "well" && answer.Problem == "":
				well++
			case strings.Contains(answer.Problem, "no answer within 10s"):
				late++
			}
		}
		const noticed = dead / atOnce * slow
		if took := time.Since(began); well != all-dead || late != dead || time.Duration(last.Load()) > noticed || took > noticed+timeout {
			t.Errorf("%d answers, the last after %s, and %d timeouts, after %s", well, time.Duration(last.Load()), late, took)
		}
	})
}
