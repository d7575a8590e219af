package claimpools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// again is the time after which a state is read again that no watch shows: the events of a claim, the end of a pod.
var again = timing.Scaled(5 * time.Second)

// Keeper keeps the objects of the pools, in one pass.
type Keeper struct {
	Namespace string
	// Image is that of the pods.
	Image string
	// Client reads claims, Deployments and Jobs from the cache.
	Client client.Client
	// Live reads nodes, pods, PVs and events from the API server.
	Live client.Reader
	// Apply makes the cluster's object the desired one, with the resource as its owner.
	Apply func(context.Context, client.Object) error
	// Differs reports whether Apply would change an object that exists; nil if that makes no difference.
	Differs func(context.Context, client.Object) (bool, error)
	// Event records an event on the resource about one of the objects: without that, events of one reason that are recorded
	// in one pass become one, and only the first message is kept.
	Event func(about client.Object, eventtype, reason, message string)
	Now   func() time.Time
	// Known is the operator's record of the holders, by the names of their Deployments. Keep changes it.
	Known map[string]Holder
	// Save writes Known; nil if nothing keeps it.
	Save func(context.Context, map[string]Holder) error

	saved    map[string]Holder
	snapshot snapshot
}

// Wanted is what there should be.
type Wanted struct {
	Pools []Pool
	Nodes []Node
	// Desired is how many nodes are to have an agent. While agents are replaced, it is more than there are Nodes.
	Desired int
	// Settled is true if no other node is to have an agent. Otherwise nothing is unmounted because of a node.
	Settled bool
	// Deleted is true if the resource is deleted: then a node that is not ready is not waited for, and a holder that may not end
	// is left behind without an owner.
	Deleted bool
}

// Keep does the next steps. It returns the states of the pools, what of others is still mounted, and what stays because it is used.
func (k *Keeper) Keep(ctx context.Context, cr *v1beta1.HostPathProvisioner, w Wanted) (Result, error) {
	var r Result
	have, err := k.holders(ctx)
	if err != nil {
		return r, err
	}
	k.saved, k.snapshot = maps.Clone(k.Known), snapshot{}
	k.learn(have)
	steps, err := k.plan(ctx, w, have, &r)
	if err != nil {
		return r, err
	}
	if err := k.save(ctx); err != nil { // before a pod mounts
		return r, err
	}
	if err := k.change(ctx, cr, steps, &r); err != nil {
		return r, err
	}
	for i := range r.States {
		r.States[i].finish()
		r.soon(r.States[i].Phase != v1beta1.Ready)
	}
	wanted := map[string]bool{}
	for _, s := range steps {
		wanted[s.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(k.Known)) {
		h := k.Known[name]
		if wanted[name] || !w.Settled && w.named(h) {
			continue
		}
		if err := k.retire(ctx, cr, &r, retired{name, h, have[name]}, w); err != nil {
			return r, errors.Join(err, k.save(ctx))
		}
	}
	slices.Sort(r.Left)
	slices.Sort(r.Kept)
	return r, k.save(ctx)
}

// count returns how many nodes are to offer the pools.
func (w Wanted) count() int { return max(w.Desired, len(w.Nodes)) }

// named reports whether the holder's pool is wanted at its path.
func (w Wanted) named(h Holder) bool {
	return slices.ContainsFunc(w.Pools, func(p Pool) bool { return p.Name == h.Pool && p.Path == h.Path })
}

// stop deletes the Jobs that unmount the pool on the node, or may, and reports whether they and their pods are gone.
func (k *Keeper) stop(ctx context.Context, pool, node string) (stopped bool, err error) {
	stopped = true
	for _, name := range []string{jobOf(pool, node), olderJobOf(pool, node)} {
		job, err := k.job(ctx, name)
		if err != nil {
			return false, err
		}
		if job != nil {
			stopped = false
			if err := k.remove(ctx, job); err != nil {
				return false, err
			}
		}
	}
	return stopped, nil
}

// holders returns the Deployments of pools by their names.
func (k *Keeper) holders(ctx context.Context) (map[string]*appsv1.Deployment, error) {
	// Unstructured, as all that is applied: one cache for both.
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps/v1")
	list.SetKind("DeploymentList")
	if err := k.Client.List(ctx, list, client.InNamespace(k.Namespace), client.HasLabels{poolLabel}); err != nil {
		return nil, fmt.Errorf("list the Deployments of pools: %w", err)
	}
	all := map[string]*appsv1.Deployment{}
	for _, o := range list.Items {
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return nil, err
		}
		all[d.Name] = d
	}
	return all, nil
}

// job returns the Job of that name, nil if there is none.
func (k *Keeper) job(ctx context.Context, name string) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, job)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	}
	if err != nil {
		return nil, nil
	}
	return job, nil
}

// remove deletes an object and waits for what belongs to it.
func (k *Keeper) remove(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	err := k.Client.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())}, client.PropagationPolicy("Foreground"))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}
