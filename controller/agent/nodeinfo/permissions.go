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

// recheck is the time between two reads of the Node, and two checks of missing permissions.
var recheck = timing.Scaled(30 * time.Second)

// permission is a verb and the resource that it is for, as in "get nodes".
type permission string

const (
	// patchPVs is a permission that several parts of the agent do without.
	patchPVs permission = "patch persistentvolumes"
	// patchClaims gives a claim back to the scheduler. updateClaims, which an older ClusterRole
	// has, suffices, too.
	patchClaims  permission = "patch persistentvolumeclaims"
	updateClaims permission = "update persistentvolumeclaims"
)

// needed lists the agent's permissions besides get nodes, which Info.Read requires. It equals the
// ClusterRoles of manifests/legacy and manifests/csi. An object's name restricts a rule to that
// object.
var needed = []struct{ group, resource, object, verbs string }{
	{"", "persistentvolumes", "", "get list watch create patch delete"},
	{"", "persistentvolumeclaims", "", "get list watch update patch"},
	{"", "persistentvolumeclaims/status", "", "patch"},
	{"", "namespaces", metav1.NamespaceSystem, "get"},
	{"", "events", "", "get create patch"},
	{"storage.k8s.io", "storageclasses", "", "list watch"},
}

// without has the consequence of each missing permission. Without a permission that it does not
// list, the agent does not serve claims, or does not remove volumes.
var without = map[permission]string{
	patchPVs: "new PVs get no finalizer, so a PV that is deleted by hand leaves its volume behind; " +
		"a PV that has the finalizer stays Terminating; volumes do not grow and are not migrated; " +
		"PVs of older provisioners are not labelled, so all PVs of the cluster are watched",
	"patch persistentvolumeclaims/status": "volumes do not grow",
	patchClaims:                           "claims that do not fit are not given back to the scheduler",
	updateClaims:                          "the same",
	"get namespaces kube-system":          "the cluster's identity is unknown, so orphans are not removed",
	"get events":                          "several agents write the event of a claim that names no node",
	"create events":                       "refusals are logged only",
	"patch events":                        "repeated events are not counted",
}

// MayPatchPVs reports whether the agent may patch PVs, as last checked. It is true before
// CheckPermissions, and if the API server does not allow the check.
func (i *Info) MayPatchPVs() bool {
	lacking := i.lacking.Load()
	return lacking == nil || !slices.Contains(*lacking, patchPVs)
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

// Run reads the Node at intervals until the context ends, and checks permissions until none is
// missing and the cluster's identity is known. A missing verb would otherwise show much later, as a
// PV that never goes away. Run calls granted when the agent gains the permission to patch PVs.
func (i *Info) Run(ctx context.Context, granted func()) {
	for sleep.For(ctx, recheck) {
		i.ReadAgain(ctx, 0)
		i.checkAgain(ctx, granted)
	}
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

// withoutAlternatives removes patchClaims and updateClaims from missing if only one of them is in
// it.
func withoutAlternatives(missing []permission) []permission {
	either := func(p permission) bool { return p == patchClaims || p == updateClaims }
	if slices.Contains(missing, patchClaims) && slices.Contains(missing, updateClaims) {
		return missing
	}
	return slices.DeleteFunc(missing, either)
}
