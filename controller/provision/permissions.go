package provision

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// recheck is how often missing permissions are asked for again.
const recheck = 30 * time.Second

// needed is what the loop must be allowed to do, cluster-wide, and the same for
// both shapes, and what those beside it must: the rules of manifests/legacy and
// manifests/csi but for those without which it does not start (readFacts).
var needed = []struct{ group, resource, verbs string }{
	{"", "persistentvolumes", "get list watch create patch delete"},
	{"", "persistentvolumeclaims", "get list watch update"},
	{"", "persistentvolumeclaims/status", "patch"},
	{"", "events", "get create patch"},
	{"storage.k8s.io", "storageclasses", "list watch"},
}

// checkPermissions asks the API server what we may do, says what is missing,
// and asks again until nothing is. A missing verb otherwise shows up much later,
// as a PV that never goes away.
func (c *Controller) checkPermissions(ctx context.Context) {
	log := klog.FromContext(ctx)
	for {
		missing, err := c.missing(ctx)
		switch {
		case err != nil:
			log.Error(err, "Cannot ask which permissions we have")
		case len(missing) == 0:
			c.status.set(stagePermissions, nil)
			return
		default:
			err := fmt.Errorf("permissions are missing: %s; apply the ClusterRole of this version", strings.Join(missing, ", "))
			log.Error(err, "The ClusterRole does not fit this version")
			c.status.set(stagePermissions, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheck):
		}
	}
}

func (c *Controller) missing(ctx context.Context) ([]string, error) {
	var missing []string
	for _, n := range needed {
		resource, part, _ := strings.Cut(n.resource, "/")
		for verb := range strings.FieldsSeq(n.verbs) {
			review, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: n.group, Resource: resource, Subresource: part, Verb: verb},
				}}, metav1.CreateOptions{})
			if err != nil {
				return nil, err
			}
			if !review.Status.Allowed {
				missing = append(missing, verb+" "+n.resource)
			}
		}
	}
	return missing, nil
}
