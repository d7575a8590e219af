package claimpools

import (
	"context"
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

var errKilled = errors.New("the operator is killed")

// The operator is killed right after each of its writes, so that it never does two in one life.
// Each life does something that stays done: a pool that goes is gone after as many lives as there
// are writes.
func TestKilledAfterEachWrite(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue))
	c.pass(poolP())
	c.runs()
	c.pass(poolP())
	created := 0
	var lives int
	for lives = 1; lives <= 20; lives++ {
		killed := false
		after := func(err error) error {
			if killed = err == nil; killed {
				err = errKilled
			}
			return err
		}
		writes := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return after(to.Create(ctx, o, opts...))
			},
			Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return after(to.Patch(ctx, o, p, opts...))
			},
			Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return after(to.Delete(ctx, o, opts...))
			},
		})
		k := *c.k
		k.Client, k.Recorded = writes, maps.Clone(c.record)
		k.Apply = func(ctx context.Context, o client.Object) error {
			created++
			return after(c.apply(ctx, o))
		}
		k.Save = func(_ context.Context, known map[string]poolrecord.Holder) error {
			if killed {
				return errKilled
			}
			c.record = maps.Clone(known)
			return after(nil)
		}
		_, err := k.Reconcile(t.Context(), &v1beta1.HostPathProvisioner{}, Desired{Settled: true})
		c.runs()
		if err == nil && c.holder(NameOf("p", "n1")) == nil && len(c.record) == 0 {
			break
		}
		if err != nil && !killed {
			t.Fatal(err)
		}
	}
	if lives > 8 || created > 0 { // five writes, and three lives that wait for a pod, a Job, and the end
		t.Errorf("gone after %d lives, and created again %d times", lives, created)
	}
}
