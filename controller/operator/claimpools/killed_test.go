package claimpools

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
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
			Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return after(to.Update(ctx, o, opts...))
			},
			Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return after(to.Patch(ctx, o, p, opts...))
			},
			Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return after(to.Delete(ctx, o, opts...))
			},
		})
		k := *c.k
		k.Client, k.Record = writes, c.read()
		k.Applier = killer{c, func(err error) error {
			created++
			return after(err)
		}}
		_, err := k.Reconcile(t.Context(), objects.Desired{Settled: true})
		c.runs()
		if err == nil && c.holder(objects.NameOf("p", "n1")) == nil && len(c.recorded()) == 0 {
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

// killer is the cluster's applier, after whose writes the operator is killed.
type killer struct {
	*cluster
	after func(error) error
}

func (k killer) Apply(ctx context.Context, about client.Object, all ...*unstructured.Unstructured) error {
	return k.after(k.cluster.Apply(ctx, about, all...))
}
