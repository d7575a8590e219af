package claims

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Of many agents about five check a claim in an hour, whatever claims there are, and each claim gets
// its event. With a number that is not known, each agent checks each claim.
func TestFewAgentsCheckAClaim(t *testing.T) {
	const n, claims = 60, 30
	for _, row := range []struct {
		known       int
		least, most int32 // requests for events in the first hour
	}{
		{n, 2 * claims, 3 * checkers * claims}, // and each event that is made
		{0, n * claims, 2 * n * claims},
		{checkers, n * claims, 2 * n * claims},
	} {
		t.Run(fmt.Sprint(row.known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, n, lacks)
				asked := new(atomic.Int32)
				count(a.client, "get", "events", asked)
				for _, r := range a.all {
					r.agents = func(context.Context) int { return row.known }
				}
				var all []*corev1.PersistentVolumeClaim
				for i := range claims {
					all = append(all, pending(fmt.Sprint(i), "now", 1, contract.AnnProvisionOnNode, "gone"))
				}
				a.seen(all...)
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if got := asked.Load(); got < row.least || got > row.most {
					t.Errorf("%d requests of %d agents for %d claims, want %d to %d", got, n, claims, row.least, row.most)
				}
				time.Sleep(2 * checkersFor)
				synctest.Wait()
				if got := len(a.events()); got != claims {
					t.Errorf("%d of %d claims have an event after three hours", got, claims)
				}
			})
		})
	}
}

// Agents that know why a pool is not offered check a few claims of it, however many agents there are.
func TestAgentsThatKnowMoreCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startAgents(t, 1, lacks).all[0]
		r.agents = func(context.Context) int { return 1_000_000 }
		check := func(claims int) (checked int) {
			clear(r.pending)
			for i := range claims {
				c := pending(fmt.Sprint(i), "csi", 1)
				r.pending[c.UID] = &pendingClaim{waiting: waitingOf(c, unserved)}
			}
			for _, p := range r.pending {
				if r.checks(t.Context(), p) {
					checked++
				}
			}
			return checked
		}
		if got := check(mostUnserved); got != mostUnserved {
			t.Errorf("%d of %d", got, mostUnserved)
		}
		if got := check(mostUnserved + 1); got > 1 {
			t.Errorf("%d of many", got)
		}
	})
}
