package claimpools

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// claim returns the claim of the pool on the node, which it creates, or raises its request. The
// problem is what of the template the claim cannot have, or why it is Pending. Without a claim,
// claim is nil.
func (r *Reconciler) claim(ctx context.Context, p objects.Pool,
	node string) (claim *corev1.PersistentVolumeClaim, problem string, err error) {
	claim = &corev1.PersistentVolumeClaim{}
	name := objects.NameOf(p.Name, node)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, claim)
	switch {
	case apierrors.IsNotFound(err):
		return r.create(ctx, p, name, node)
	case err != nil:
		return nil, "", fmt.Errorf("read claim %s: %w", name, err)
	case claim.Labels[objects.PoolLabel] != "" && claim.Labels[objects.PoolLabel] != objects.LabelOf(p.Name):
		return nil, fmt.Sprintf("claim %s is that of a pool with the label %s=%s; give this pool another name, or "+
			"delete the claim if its data is not needed", name, objects.PoolLabel, claim.Labels[objects.PoolLabel]), nil
	case claim.DeletionTimestamp != nil:
		return claim, "claim " + name + " is being deleted; its PV has the policy Retain, and the claim is made " +
			"again for it as soon as no pod has it", nil
	case claim.Status.Phase == corev1.ClaimLost:
		return claim, fmt.Sprintf("claim %s lost its PV %s", name, claim.Spec.VolumeName), nil
	}
	if p.Template != nil {
		if problem, err = r.raiseRequest(ctx, claim, p.Template); problem != "" || err != nil {
			return claim, problem, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound {
		if h := r.Record.Holders[name]; h.Volume != "" && claim.Spec.VolumeName == h.Volume {
			if _, err := r.Reclaim(ctx, name); err != nil { // the operator was killed before
				return nil, "", err
			}
		}
		problem, err = r.pending(ctx, claim)
	}
	return claim, problem, err
}

// again returns the spec of a claim that is gone, for the PV that it had: the volumes of the pool
// are there. It is nil if that PV is gone, too, or is another claim's. The problem says so while
// volumes use the pool: then there is no claim, because another PV would hide that they are lost.
func (r *Reconciler) again(ctx context.Context, p objects.Pool, name,
	node string) (spec *corev1.PersistentVolumeClaimSpec, problem string, err error) {
	h, found := r.Record.Holders[name]
	if !found || h.ClaimUID == "" || h.Pool != p.Name || h.Node != node {
		return nil, "", nil
	}
	pv, err := r.Reclaim(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if pv == nil {
		at, err := r.Node(ctx, node)
		if err != nil {
			return nil, "", err
		}
		why, used, err := r.MayEnd(ctx, h, at, objects.Desired{Pools: []objects.Pool{p}})
		if err == nil && used {
			problem = fmt.Sprintf("claim %s is gone, and so is its PV %s, %s; restore these, or delete what uses the pool", name,
				h.Volume, why)
		}
		return nil, problem, err
	}
	spec = &corev1.PersistentVolumeClaimSpec{AccessModes: pv.Spec.AccessModes, VolumeMode: pv.Spec.VolumeMode,
		Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity}}
	if p.Template != nil {
		spec = p.Template.DeepCopy()
		want, has := spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
		if want.Cmp(has) > 0 { // it grows once it is bound
			spec.Resources.Requests[corev1.ResourceStorage] = has
		}
	}
	spec.StorageClassName, spec.VolumeName = &pv.Spec.StorageClassName, pv.Name
	return spec, "", nil
}

func (r *Reconciler) create(ctx context.Context, p objects.Pool, name,
	node string) (*corev1.PersistentVolumeClaim, string, error) {
	spec, problem, err := r.again(ctx, p, name, node)
	switch {
	case problem != "" || err != nil:
		return nil, problem, err
	case spec == nil && p.Template == nil:
		return nil, "claim " + name + " is gone", nil
	case spec == nil:
		spec = p.Template.DeepCopy()
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.Namespace, Labels: r.HolderLabels(p.Name)},
		Spec:       *spec}
	err = r.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache is behind
		return nil, "", nil
	case live.Permanent(err): // the user has to change something
		return nil, fmt.Sprintf("claim %s: %v", name, err), nil
	case err != nil:
		return nil, "", fmt.Errorf("create claim %s: %w", name, err)
	}
	r.Event(claim, corev1.EventTypeNormal, events.CreateResourceSuccess, "Created claim "+name)
	return claim, "", nil
}

// reportUnwanted records an event on each claim that no pool wants any more and that has no volume, as
// of a pool that was removed before its claims were bound: it would take the next disk that fits.
func (r *Reconciler) reportUnwanted(ctx context.Context, w objects.Desired, wanted map[string]bool) error {
	if !w.Settled {
		return nil
	}
	var list corev1.PersistentVolumeClaimList
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.HasLabels{objects.PoolLabel}); err != nil {
		return fmt.Errorf("list the claims of pools: %w", err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		_, held := r.Record.Holders[claim.Name]
		if held || wanted[claim.Name] || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" {
			continue
		}
		r.Events.Eventf(claim, nil, corev1.EventTypeWarning, events.PoolClaimUnwanted, "Reconcile", "%s",
			"no pool wants this claim any more, and it takes the next disk that fits. As long as it is Pending it has no data: "+
				"delete it, or add the pool again")
	}
	return nil
}

// raiseRequest raises the claim's request to that of the template, and describes what else differs.
func (r *Reconciler) raiseRequest(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	template *corev1.PersistentVolumeClaimSpec) (problem string, err error) {
	want := template.Resources.Requests[corev1.ResourceStorage]
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if problem = conflict(template, claim); problem != "" || want.Equal(have) {
		return problem, nil
	}
	raised := claim.DeepCopy()
	raised.Spec.Resources.Requests[corev1.ResourceStorage] = want
	err = r.Client.Patch(ctx, raised, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}))
	if live.Permanent(err) { // the class does not let volumes grow
		return fmt.Sprintf("claim %s does not grow to %s: %v", claim.Name, &want, err), nil
	}
	if err != nil {
		return "", fmt.Errorf("raise the request of claim %s: %w", claim.Name, err)
	}
	r.Event(claim, corev1.EventTypeNormal, events.UpdateResourceSuccess,
		fmt.Sprintf("Raised claim %s from %s to %s", claim.Name, &have, &want))
	return "", nil
}

// expected are reasons of events of claims that become bound without help.
var expected = []string{"WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", "Provisioning",
	"ProvisioningSucceeded"}

// pending returns the last event of a claim that is not bound, "" if it is expected.
func (r *Reconciler) pending(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	var list corev1.EventList
	err := r.Live.List(ctx, &list, client.InNamespace(r.Namespace),
		client.MatchingFields{"involvedObject.uid": string(claim.UID)})
	if err != nil {
		return "", fmt.Errorf("list the events of claim %s: %w", claim.Name, err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return timeOf(a).Compare(timeOf(b).Time) })
	if slices.Contains(expected, last.Reason) {
		return "", nil
	}
	return fmt.Sprintf("claim %s is not bound: %s: %s", claim.Name, last.Reason, last.Message), nil
}

// timeOf is when the event was last recorded, in either form of events.
func timeOf(e corev1.Event) *metav1.Time {
	switch {
	case e.Series != nil:
		return &metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return &e.LastTimestamp
	case !e.EventTime.IsZero():
		return &metav1.Time{Time: e.EventTime.Time}
	}
	return &e.CreationTimestamp
}
