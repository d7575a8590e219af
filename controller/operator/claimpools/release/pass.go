package release

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Applier makes the cluster's objects the desired ones, as apply.Applier does.
type Applier interface {
	// Apply records events of what it does about the object.
	Apply(ctx context.Context, about client.Object, objects ...*unstructured.Unstructured) error
	// Differs reports whether Apply would change an object that exists.
	Differs(ctx context.Context, want *unstructured.Unstructured) (bool, error)
}

// Pass is what the steps of one pass share.
type Pass struct {
	objects.Maker
	// Client reads claims, Deployments and Jobs from the cache.
	Client client.Client
	// Live reads nodes, pods, PVs and events from the API server.
	Live    client.Reader
	Applier Applier
	// Events records events on the resource. Without another object, events of one reason become one
	// in a pass, with the first message.
	Events events.EventRecorder
	Now    func() time.Time
	// Record is the operator's. The pass changes its holders.
	Record *poolrecord.Record
	// Resource is the one that is served.
	Resource *v1beta1.HostPathProvisioner

	// Blockers are those that earlier passes found.
	Blockers *Blockers

	written  map[string]poolrecord.Holder
	snapshot snapshot
}

// Begin forgets what an earlier pass read.
func (p *Pass) Begin() {
	if p.Record.Holders == nil {
		p.Record.Holders = map[string]poolrecord.Holder{}
	}
	p.written, p.snapshot = maps.Clone(p.Record.Holders), snapshot{}
}

// Save writes the record if its holders differ from what was written last. The caller saves before
// it creates or changes an object for one.
func (p *Pass) Save(ctx context.Context) error {
	if maps.Equal(p.Record.Holders, p.written) {
		return nil
	}
	if err := p.Record.Write(ctx, p.Client); err != nil {
		return err
	}
	p.written = maps.Clone(p.Record.Holders)
	return nil
}

// RecordOf returns the record of the Deployment, or else one of what the Deployment has.
func (p *Pass) RecordOf(d *appsv1.Deployment) poolrecord.Holder {
	if h, found := p.Record.Holders[d.Name]; found {
		return h
	}
	h := poolrecord.Holder{Pool: objects.PoolOf(d), Node: objects.NodeOf(d), Path: objects.PathOf(d),
		ClaimUID: objects.ClaimOf(d)}
	if !poolrecord.IsPath(h.Path) {
		h.Path = ""
	}
	return h
}

// Apply makes the cluster's holder of the pool on the node the desired one.
func (p *Pass) Apply(ctx context.Context, pool objects.Pool, node string) error {
	want, err := p.wanted(pool, node)
	if err != nil {
		return err
	}
	return p.Applier.Apply(ctx, p.Resource, want)
}

// Differs reports whether Apply would change the holder, which exists.
func (p *Pass) Differs(ctx context.Context, pool objects.Pool, node string) (bool, error) {
	want, err := p.wanted(pool, node)
	if err != nil {
		return false, err
	}
	return p.Applier.Differs(ctx, want)
}

// wanted returns the holder. It has no owner while the resource is deleted: a deletion in the
// foreground would delete it first.
func (p *Pass) wanted(pool objects.Pool, node string) (*unstructured.Unstructured, error) {
	d := p.Holder(p.Resource, pool, node, p.Record.Holders[objects.NameOf(pool.Name, node)])
	want, err := apply.ToApply(d)
	if err != nil {
		return nil, err
	}
	p.Own(want, p.Resource)
	if p.Resource.DeletionTimestamp != nil {
		want.SetOwnerReferences(nil)
	}
	return want, nil
}

// Event records an event on the resource about one of the objects.
func (p *Pass) Event(about client.Object, eventtype, reason, message string) {
	p.Events.Eventf(p.Resource, about, eventtype, reason, "Reconcile", "%s", message)
}

// DeleteJobs deletes the Jobs that unmount the pool on the node, or may, and reports whether they
// and their pods are gone.
func (p *Pass) DeleteJobs(ctx context.Context, pool, node string) (stopped bool, err error) {
	stopped = true
	for _, name := range []string{objects.JobOf(pool, node), objects.OlderJobOf(pool, node)} {
		job, err := p.job(ctx, name)
		if err != nil {
			return false, err
		}
		if job != nil {
			stopped = false
			if err := p.remove(ctx, job); err != nil {
				return false, err
			}
		}
	}
	return stopped, nil
}

// job returns the Job of that name, nil if there is none.
func (p *Pass) job(ctx context.Context, name string) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, job)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	}
	if err != nil {
		return nil, nil
	}
	return job, nil
}

// remove deletes an object, as it was read when that was decided, and waits for what belongs to it. It
// returns a conflict if the object was written since: a holder may have got its pod back.
func (p *Pass) remove(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	err := p.Client.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())},
		client.PropagationPolicy("Foreground"))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}

// Result is what was found of holders that are no longer wanted.
type Result struct {
	// Left describes the mounts, and Kept those of them that stay because volumes use them.
	Left, Kept []string
}

// addLeft adds a mount that is still to be unmounted.
func (r *Result) addLeft(what string) { r.Left = append(r.Left, what) }
