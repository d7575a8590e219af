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
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// pollInterval is the time after which a state is read again that no watch shows: the events of a
// claim, the end of a pod.
var pollInterval = timing.Scaled(5 * time.Second)

// Reconciler brings claims, Deployments and Jobs of pools to what is desired. It is made for one
// pass.
type Reconciler struct {
	Namespace string
	// Image is that of the pods.
	Image string
	// Client reads claims, Deployments and Jobs from the cache.
	Client client.Client
	// Live reads nodes, pods, PVs and events from the API server.
	Live client.Reader
	// Apply makes the cluster's object the desired one, with the resource as its owner.
	Apply func(context.Context, client.Object) error
	// Differs reports whether Apply would change an object that exists; nil if that makes no
	// difference.
	Differs func(context.Context, client.Object) (bool, error)
	// Event records an event on the resource about one of the objects. Without the object, events
	// of one reason become one in a pass, with the first message.
	Event func(about client.Object, eventtype, reason, message string)
	Now   func() time.Time
	// Recorded is the operator's record of the holders, by the names of their Deployments.
	// Reconcile changes it.
	Recorded map[string]poolrecord.Holder
	// Save writes Recorded; nil if nothing keeps it.
	Save func(context.Context, map[string]poolrecord.Holder) error

	written  map[string]poolrecord.Holder
	snapshot snapshot
}

// Desired is what there should be.
type Desired struct {
	Pools []Pool
	Nodes []Node
	// Agents is how many nodes are to have an agent. While agents are replaced, it is more than
	// there are Nodes.
	Agents int
	// Settled is true if no other node is to have an agent. Otherwise nothing is unmounted because
	// of a node.
	Settled bool
	// Deleted is true if the resource is deleted: then Reconcile does not wait for a node that is
	// not ready, and a holder that may not end stays without an owner.
	Deleted bool
}

// Reconcile does the next steps. It returns the states of the pools, what of others is still
// mounted, and what stays because it is used.
func (r *Reconciler) Reconcile(ctx context.Context, cr *v1beta1.HostPathProvisioner, w Desired) (Result, error) {
	var found Result
	have, err := r.holders(ctx)
	if err != nil {
		return found, err
	}
	r.written, r.snapshot = maps.Clone(r.Recorded), snapshot{}
	r.addUnrecorded(have)
	steps, err := r.plan(ctx, w, have, &found)
	if err != nil {
		return found, err
	}
	if err := r.save(ctx); err != nil { // before a pod mounts
		return found, err
	}
	if err := r.change(ctx, cr, steps, &found); err != nil {
		return found, err
	}
	for i := range found.States {
		found.States[i].setPhase()
		found.pollIf(found.States[i].Phase != v1beta1.Ready)
	}
	wanted := map[string]bool{}
	for _, s := range steps {
		wanted[s.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.Recorded)) {
		h := r.Recorded[name]
		if wanted[name] || !w.Settled && w.names(h) {
			continue
		}
		if err := r.retire(ctx, cr, &found, retired{name, h, have[name]}, w); err != nil {
			return found, errors.Join(err, r.save(ctx))
		}
	}
	slices.Sort(found.Left)
	slices.Sort(found.Kept)
	return found, r.save(ctx)
}

// count returns how many nodes are to offer the pools.
func (w Desired) count() int { return max(w.Agents, len(w.Nodes)) }

// names reports whether the holder's pool is wanted at its path.
func (w Desired) names(h poolrecord.Holder) bool {
	return slices.ContainsFunc(w.Pools, func(p Pool) bool { return p.Name == h.Pool && p.Path == h.Path })
}

// deleteJobs deletes the Jobs that unmount the pool on the node, or may, and reports whether they
// and their pods are gone.
func (r *Reconciler) deleteJobs(ctx context.Context, pool, node string) (stopped bool, err error) {
	stopped = true
	for _, name := range []string{jobOf(pool, node), olderJobOf(pool, node)} {
		job, err := r.job(ctx, name)
		if err != nil {
			return false, err
		}
		if job != nil {
			stopped = false
			if err := r.remove(ctx, job); err != nil {
				return false, err
			}
		}
	}
	return stopped, nil
}

// holders returns the Deployments of pools by their names.
func (r *Reconciler) holders(ctx context.Context) (map[string]*appsv1.Deployment, error) {
	// Unstructured, as all that is applied: one cache for both.
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps/v1")
	list.SetKind("DeploymentList")
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), client.HasLabels{poolLabel}); err != nil {
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
func (r *Reconciler) job(ctx context.Context, name string) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, job)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	}
	if err != nil {
		return nil, nil
	}
	return job, nil
}

// remove deletes an object and waits for what belongs to it.
func (r *Reconciler) remove(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())}, client.PropagationPolicy("Foreground"))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}
