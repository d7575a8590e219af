package claimpools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
)

// pollInterval is the time after which a state is read again that no watch shows: the events of a
// claim, the end of a pod.
var pollInterval = timing.Scaled(5 * time.Second)

// Reconciler brings claims, Deployments and Jobs of pools to what is desired. It is made for one
// pass.
type Reconciler struct{ release.Pass }

// Reconcile does the next steps. It returns the states of the pools, what of others is still
// mounted, and what stays because it is used.
func (r *Reconciler) Reconcile(ctx context.Context, w objects.Desired) (Result, error) {
	var found Result
	have, err := r.holders(ctx)
	if err != nil {
		return found, err
	}
	r.Begin()
	r.addUnrecorded(have)
	steps, err := r.plan(ctx, w, have, &found)
	if err != nil {
		return found, err
	}
	if err := r.Save(ctx); err != nil { // before a pod mounts
		return found, err
	}
	if err := r.change(ctx, steps, &found); err != nil {
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
	for _, name := range slices.Sorted(maps.Keys(r.Record.Holders)) {
		h := r.Record.Holders[name]
		if wanted[name] || !w.Settled && w.Names(h) {
			continue
		}
		old := release.Retired{Name: name, Holder: h, Deployment: have[name]}
		if err := r.Retire(ctx, &found.Result, old, w); err != nil {
			return found, errors.Join(err, r.Save(ctx))
		}
	}
	if err := r.reportUnwanted(ctx, w, wanted); err != nil {
		return found, errors.Join(err, r.Save(ctx))
	}
	found.pollIf(len(found.Left) > 0)
	slices.Sort(found.Left)
	slices.Sort(found.Kept)
	return found, r.Save(ctx)
}

// holders returns the Deployments of pools by their names.
func (r *Reconciler) holders(ctx context.Context) (map[string]*appsv1.Deployment, error) {
	// Unstructured, as all that is applied: one cache for both.
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps/v1")
	list.SetKind("DeploymentList")
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), client.HasLabels{objects.PoolLabel}); err != nil {
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
