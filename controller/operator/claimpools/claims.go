package claimpools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claim returns the claim of the pool on the node, which it creates, or raises its request. The
// problem is what of the template the claim cannot have, or why it is Pending. Without a claim,
// claim is nil.
func (r *Reconciler) claim(ctx context.Context, p Pool,
	node string) (claim *corev1.PersistentVolumeClaim, problem string, err error) {
	claim = &corev1.PersistentVolumeClaim{}
	name := NameOf(p.Name, node)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, claim)
	switch {
	case apierrors.IsNotFound(err):
		return r.create(ctx, p, name)
	case err != nil:
		return nil, "", fmt.Errorf("read claim %s: %w", name, err)
	case claim.Labels[poolLabel] != "" && claim.Labels[poolLabel] != labelOf(p.Name):
		return nil, fmt.Sprintf("claim %s is that of a pool with the label %s=%s; give this pool another name, or "+
			"delete the claim if its data is not needed", name, poolLabel, claim.Labels[poolLabel]), nil
	case claim.DeletionTimestamp != nil:
		return claim, "claim " + name + " is deleted; its data goes with it as soon as no pod uses it", nil
	case claim.Status.Phase == corev1.ClaimLost:
		return claim, fmt.Sprintf("claim %s lost its PV %s", name, claim.Spec.VolumeName), nil
	}
	if p.Template != nil {
		if problem, err = r.raiseRequest(ctx, claim, p.Template); problem != "" || err != nil {
			return claim, problem, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound {
		problem, err = r.pending(ctx, claim)
	}
	return claim, problem, err
}

func (r *Reconciler) create(ctx context.Context, p Pool, name string) (*corev1.PersistentVolumeClaim, string, error) {
	if p.Template == nil {
		return nil, "claim " + name + " is gone", nil
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.Namespace, Labels: r.labels(p.Name)},
		Spec:       *p.Template.DeepCopy()}
	err := r.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache is behind
		return nil, "", nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err): // the user has to change something
		return nil, fmt.Sprintf("claim %s: %v", name, err), nil
	case err != nil:
		return nil, "", fmt.Errorf("create claim %s: %w", name, err)
	}
	r.Event(claim, corev1.EventTypeNormal, "CreateResourceSuccess", "Created claim "+name)
	return claim, "", nil
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
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // the class does not let volumes grow
		return fmt.Sprintf("claim %s does not grow to %s: %v", claim.Name, &want, err), nil
	}
	if err != nil {
		return "", fmt.Errorf("raise the request of claim %s: %w", claim.Name, err)
	}
	r.Event(claim, corev1.EventTypeNormal, "UpdateResourceSuccess",
		fmt.Sprintf("Raised claim %s from %s to %s", claim.Name, &have, &want))
	return "", nil
}

// Conflict describes what of the template a claim of the pool cannot have, the first of these
// claims by its name, or returns "".
func Conflict(ctx context.Context, claims client.Reader, namespace, pool string,
	template *corev1.PersistentVolumeClaimSpec) (string, error) {
	var list corev1.PersistentVolumeClaimList
	if err := claims.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{poolLabel: labelOf(pool)}); err != nil {
		return "", fmt.Errorf("list the claims of pool %s: %w", pool, err)
	}
	// a cache has no order
	slices.SortFunc(list.Items, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) })
	for _, claim := range list.Items {
		if problem := conflict(template, &claim); problem != "" && claim.DeletionTimestamp == nil {
			return "pool " + pool + ": " + problem, nil
		}
	}
	return "", nil
}

func conflict(template *corev1.PersistentVolumeClaimSpec, claim *corev1.PersistentVolumeClaim) string {
	if isBlock(&claim.Spec) {
		return fmt.Sprintf("claim %s has volumeMode Block, and a pool needs a filesystem; add a pool of another name "+
			"and path without volumeMode, whose claims have one, and move the volumes to it. The claim, and the Deployment "+
			"that uses it, stay as they are",
			claim.Name)
	}
	if what := differs(template, &claim.Spec); what != "" {
		return fmt.Sprintf("pvcTemplate has another %s than claim %s, and claims cannot be changed; set it back, or "+
			"remove the pool, delete its claims, and add it again", what, claim.Name)
	}
	want := template.Resources.Requests[corev1.ResourceStorage]
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if want.Cmp(have) < 0 {
		return fmt.Sprintf("pvcTemplate requests %s, and claim %s has %s: claims do not shrink; set it back", &want,
			claim.Name, &have)
	}
	return ""
}

// differs returns a key of the template that has another value in the claim. The API server sets
// what a template leaves out.
func differs(template, claim *corev1.PersistentVolumeClaimSpec) string {
	modes := slices.Sorted(slices.Values(template.AccessModes))
	switch {
	case template.StorageClassName != nil && !ptr.Equal(template.StorageClassName, claim.StorageClassName):
		return "storageClassName"
	case !slices.Equal(modes, slices.Sorted(slices.Values(claim.AccessModes))):
		return "accessModes"
	case isBlock(template) != isBlock(claim):
		return "volumeMode"
	case template.VolumeName != "" && template.VolumeName != claim.VolumeName:
		return "volumeName"
	case template.Selector != nil && !equality.Semantic.DeepEqual(template.Selector, claim.Selector):
		return "selector"
	case template.DataSource != nil && !equality.Semantic.DeepEqual(template.DataSource, claim.DataSource):
		return "dataSource"
	}
	return ""
}

// isBlock reports whether the claim is a block device, which no holder of this operator can mount.
func isBlock(claim *corev1.PersistentVolumeClaimSpec) bool {
	return ptr.Deref(claim.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
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
