package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// agents is the state of the agents, and what has to be gone before they are installed, or "".
type agents struct {
	agentstatus.State
	waiting string
}

// judgeAgents returns the state of the agents. written is the generation of the DaemonSet that this
// pass wrote, 0 if it did not.
func (r *Reconciler) judgeAgents(ctx context.Context, cr *v1beta1.HostPathProvisioner, waiting string,
	written int64) (agents, error) {
	o, err := r.Observe(ctx)
	if err != nil {
		return agents{}, err
	}
	o.Written, o.Rolling, o.MissingSince = written, progress(cr.Status).Reason == rolloutStarted, r.missingSince
	a := agents{agentstatus.Of(o), waiting}
	r.missingSince = a.MissingSince
	return a, nil
}

// closed returns the pools that agents do not have open, but for those on claims, whose own states
// show it.
func (a agents) closed(l plan) []agentstatus.Closed {
	return a.Closed(func(pool string) bool {
		return slices.ContainsFunc(l.Pools, func(p poolrecord.Pool) bool { return p.Name == pool && p.Mount != "" })
	})
}

// someOpen is the status of Available while pools are not open: whether an agent has any.
func (a agents) someOpen(l plan) corev1.ConditionStatus {
	return statusOf[slices.ContainsFunc(l.Pools, func(p poolrecord.Pool) bool { return a.Open(p.Name) > 0 })]
}

// again returns when to check the agents again, 0 for never. Caches of several kinds do not agree
// at every moment: the change that ends a rollout may have been seen before this pass.
func (a agents) again() time.Duration {
	if a.waiting != "" || a.Rolling || a.Counting {
		return soonest(checkInterval, a.Left)
	}
	return a.Left
}

// counts describes the agents that are not ready.
func (a agents) counts() string {
	if a.Desired == 0 {
		return "no node matches spec.workload"
	}
	text := fmt.Sprintf("%d of %d agents are ready", a.Ready, a.Desired)
	if len(a.Unready) > 0 {
		text += "; not ready: " + events.Names(a.Unready, events.Listed)
	}
	if len(a.Endless) > 0 {
		text += "; deleted, and not ended since: " + events.Names(a.Endless, events.Listed)
	}
	if a.Missing > 0 {
		text += fmt.Sprintf("; without a pod: %d, see the events of DaemonSet %s", a.Missing, installed.DaemonSetName)
	}
	return text
}

// lacks continues the message of a state that ends when the agents are ready. It is empty while
// these are on their way.
func (a agents) lacks() string {
	if !a.Failed && (a.Rolling || a.Desired > 0) {
		return ""
	}
	return ", which stands still: " + a.counts()
}

// Observe reads what the agents are judged by.
func (r *Reconciler) Observe(ctx context.Context) (o agentstatus.Observed, err error) {
	o.Now = r.Now()
	if o.DaemonSet, err = r.installed().DaemonSet(ctx); err != nil || o.DaemonSet == nil {
		return o, err
	}
	var pods corev1.PodList
	if err = r.Client.List(ctx, &pods, client.InNamespace(r.Namespace)); err != nil {
		return o, err
	}
	var published storagev1.CSIStorageCapacityList
	err = r.Client.List(ctx, &published, client.InNamespace(r.Namespace))
	o.Pods, o.Published = pods.Items, published.Items
	return o, err
}

// offering returns the nodes of the agents with their labels, and which of the pools that they offer
// are open.
func (r *Reconciler) offering(ctx context.Context, s agentstatus.State) (nodes []objects.Node, err error) {
	for i, a := range s.Agents {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Name: a.Node}, metadata)); err != nil {
			return nil, fmt.Errorf("read node %s: %w", a.Node, err)
		}
		node := objects.Node{Name: a.Node, Offered: map[string]string{}, Labels: metadata.Labels}
		for _, p := range poolrecord.OfferOf(s.Running[i].Spec).Pools {
			if a.Opens(p.Name) {
				open, _ := a.Pools.Named(p.Name)
				node.Offered[p.Name] = open.ID
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
