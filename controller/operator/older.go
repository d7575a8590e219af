package operator

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// older are the objects of the existing operator that one agent for both kinds of volumes replaces, its DaemonSet first.
var older = []struct{ apiVersion, kind, name string }{
	{"apps/v1", "DaemonSet", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "hostpath-provisioner"},
	{"v1", "ServiceAccount", "hostpath-provisioner-admin"},
}

// managedBy is the label of what an operator installed.
const managedBy = "app.kubernetes.io/managed-by"

// removeOlder deletes objects of the existing operator, and returns what has to be gone before the agents are installed: two
// agents on one node would serve a claim twice.
func (r *Reconciler) removeOlder(ctx context.Context) (waiting string, err error) {
	for _, old := range older {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(old.apiVersion)
		o.SetKind(old.kind)
		key := client.ObjectKey{Name: old.name}
		if old.kind == "DaemonSet" || old.kind == "ServiceAccount" {
			key.Namespace = r.Namespace
		}
		err := r.Client.Get(ctx, key, o)
		switch {
		case apierrors.IsNotFound(err), err == nil && o.GetLabels()[managedBy] != owner:
			continue
		case err != nil:
			return "", err
		case o.GetDeletionTimestamp() == nil:
			if err := r.replace(ctx, o); err != nil {
				return "", err
			}
		}
		if old.kind == "DaemonSet" {
			return "the pods of the older DaemonSet " + old.name, nil
		}
	}
	return "", nil
}
