package nodeinfo

import (
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

var (
	// recheck is the time between two reads of the Node, and the first pause between two checks of
	// missing permissions. Each check is a request for each permission, so the pause doubles.
	recheck = timing.Scaled(time.Minute)
	// readFor is for how long a read of the Node counts for loops that come by each minute: less, so that
	// none of them misses its turn by a moment, and more than what is left until the next turn of another.
	readFor = recheck - recheck/10
	// recheckLast is the longest such pause.
	recheckLast = timing.Scaled(10 * time.Minute)
)

// MayPatchPVs reports whether the agent may patch PVs, as last checked. It is true before
// CheckPermissions, and if the API server does not allow the check.
func (i *Info) MayPatchPVs() bool {
	lacking := i.lacking.Load()
	return lacking == nil || !slices.Contains(*lacking, permissions.PatchPVs)
}

// CheckPermissions reviews the needed permissions. It logs the missing ones with the consequences
// if they changed. It returns no error if the API server does not allow the check.
func (i *Info) CheckPermissions(ctx context.Context) error {
	missing, err := i.missing(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Cannot ask which permissions we have")
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask which permissions we have: %w", err)
	}
	before := i.lacking.Swap(&missing)
	if len(missing) > 0 && (before == nil || !slices.Equal(*before, missing)) {
		klog.FromContext(ctx).Error(permissions.Lacks(missing), "The ClusterRole does not fit this version")
	}
	return nil
}

// Ready returns nil, or an error that names the missing permissions.
func (i *Info) Ready() error {
	if lacking := i.lacking.Load(); lacking != nil && len(*lacking) > 0 {
		return permissions.Lacks(*lacking)
	}
	return nil
}

// Run reads the Node at intervals until the context ends, and checks permissions until none is
// missing and the cluster's identity is known. A missing verb would otherwise show much later, as a
// PV that never goes away. Run calls granted when the agent gains the permission to patch PVs.
func (i *Info) Run(ctx context.Context, granted func()) {
	pause, next := recheck, time.Now()
	for sleep.For(ctx, i.untilRead()) {
		i.ReadAgain(ctx, readFor)
		if time.Now().Before(next) {
			continue
		}
		i.checkAgain(ctx, granted)
		next = time.Now().Add(pause)
		pause = sleep.Doubled(pause, recheck, recheckLast)
	}
}

// untilRead returns the pause until the Node was read recheck ago, by whatever part of the agent, and
// recheck if it could not be read since then.
func (i *Info) untilRead() time.Duration {
	if left := recheck - time.Since(i.last.Load().at); left > 0 {
		return left
	}
	return recheck
}

// checkAgain checks permissions and reads the cluster's identity, if one of them is missing.
func (i *Info) checkAgain(ctx context.Context, granted func()) {
	lacking := i.lacking.Load()
	if lacking != nil && len(*lacking) == 0 && i.Cluster() != "" {
		return
	}
	could := i.MayPatchPVs()
	if err := i.CheckPermissions(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot check permissions; it is tried again")
	}
	if !could && i.MayPatchPVs() {
		granted()
	}
	if i.Cluster() != "" {
		return
	}
	if err := i.readCluster(ctx); err == nil && i.Cluster() != "" {
		klog.FromContext(ctx).Info("The cluster's identity is known now", "cluster", i.Cluster())
	}
}

// missing returns the needed permissions that the API server does not grant.
func (i *Info) missing(ctx context.Context) ([]permissions.Permission, error) {
	return permissions.Missing(permissions.Provisioner(), func(a *authorizationv1.ResourceAttributes) (bool, error) {
		review, err := i.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	})
}
