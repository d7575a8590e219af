package nodeinfo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// recheck is how often the Node is read again, and missing permissions are asked for.
var recheck = timing.Scaled(30 * time.Second)

// permission is a verb and the resource that it is for, as in "get nodes".
type permission string

const (
	// patchPVs is the one that the loop can do without in more than one place.
	patchPVs permission = "patch persistentvolumes"
	// patchClaims gives a claim back to the scheduler. An older ClusterRole has updateClaims,
	// which serves in its place.
	patchClaims  permission = "patch persistentvolumeclaims"
	updateClaims permission = "update persistentvolumeclaims"
)

// needed is what the loop must be allowed to do, cluster-wide, and the same for
// both shapes, and what those beside it must: the rules of manifests/legacy and
// manifests/csi but for the one without which it does not start (Info.Read). An
// object's name restricts a rule to that object.
var needed = []struct{ group, resource, object, verbs string }{
	{"", "persistentvolumes", "", "get list watch create patch delete"},
	{"", "persistentvolumeclaims", "", "get list watch update patch"},
	{"", "persistentvolumeclaims/status", "", "patch"},
	{"", "namespaces", metav1.NamespaceSystem, "get"},
	{"", "events", "", "get create patch"},
	{"storage.k8s.io", "storageclasses", "", "list watch"},
}

// without says what is off while a permission is missing. Without one that is
// not here the loop does not serve claims, or does not remove volumes.
var without = map[permission]string{
	patchPVs: "new PVs get no finalizer, so a PV that is deleted by hand leaves its volume behind; a PV that has the finalizer stays " +
		"Terminating; volumes do not grow and are not migrated; PVs of older provisioners are not labelled, so all PVs of the cluster are watched",
	"patch persistentvolumeclaims/status": "volumes do not grow",
	patchClaims:                           "claims that do not fit are not given back to the scheduler",
	updateClaims:                          "the same",
	"get namespaces kube-system":          "the cluster's identity is unknown, so orphans are not removed",
	"get events":                          "several agents write the event of a claim that names no node",
	"create events":                       "refusals are logged only",
	"patch events":                        "repeated events are not counted",
}

// MayPatchPVs reports whether the agent may change PVs, as last asked. It is true
// before CheckPermissions, and if the API server does not let the agent ask.
func (i *Info) MayPatchPVs() bool {
	lacking := i.lacking.Load()
	return lacking == nil || !slices.Contains(*lacking, patchPVs)
}

// CheckPermissions asks the API server which of the needed permissions are
// missing, and logs them, with what is off without them, if they changed. An API
// server that does not let the agent ask is no error.
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
		klog.FromContext(ctx).Error(lacks(missing), "The ClusterRole does not fit this version")
	}
	return nil
}

// Ready returns nil, or an error that names the missing permissions.
func (i *Info) Ready() error {
	if lacking := i.lacking.Load(); lacking != nil && len(*lacking) > 0 {
		return lacks(*lacking)
	}
	return nil
}

// lacks is the error that permissions are missing.
func lacks(missing []permission) error {
	var words []string
	for _, p := range missing {
		off, ok := without[p]
		if !ok {
			off = "claims are not served as they should be"
		}
		words = append(words, fmt.Sprintf("%s (%s)", p, off))
	}
	return errors.New("permissions are missing: " + strings.Join(words, ", ") + "; apply the ClusterRole of this version")
}

// Run reads the Node again, and asks for the permissions until none is missing and the
// cluster's identity is known. A missing verb otherwise shows up much later, as a PV that
// never goes away. It calls granted when the agent may patch PVs and could not before.
func (i *Info) Run(ctx context.Context, granted func()) {
	for sleep.For(ctx, recheck) {
		i.ReadAgain(ctx, 0)
		i.askAgain(ctx, granted)
	}
}

// askAgain asks for permissions and the cluster's identity, if one of them is missing.
func (i *Info) askAgain(ctx context.Context, granted func()) {
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
func (i *Info) missing(ctx context.Context) ([]permission, error) {
	missing := []permission{}
	for _, n := range needed {
		resource, part, _ := strings.Cut(n.resource, "/")
		for verb := range strings.FieldsSeq(n.verbs) {
			review, err := i.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Group: n.group, Resource: resource, Subresource: part, Name: n.object, Verb: verb,
					},
				}}, metav1.CreateOptions{})
			if err != nil {
				return nil, err
			}
			if !review.Status.Allowed {
				missing = append(missing, permission(strings.TrimSpace(verb+" "+n.resource+" "+n.object)))
			}
		}
	}
	return withoutAlternatives(missing), nil
}

// withoutAlternatives returns what is missing without patchClaims and updateClaims if only one of
// them is missing.
func withoutAlternatives(missing []permission) []permission {
	either := func(p permission) bool { return p == patchClaims || p == updateClaims }
	if slices.Contains(missing, patchClaims) && slices.Contains(missing, updateClaims) {
		return missing
	}
	return slices.DeleteFunc(missing, either)
}
