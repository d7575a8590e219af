// Package constraints has the SecurityContextConstraints with which OpenShift admits the pods that the
// operator makes.
package constraints

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	openshiftcsi "kubevirt.io/hostpath-provisioner/manifests/openshift-csi"
)

// Kind is that of constraints.
var Kind = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}

// Names of constraints: those of the agents, and those of the existing operator's DaemonSet for
// hostPath PVs, which the agents replace.
const (
	Agents = "hostpath-provisioner-csi"
	Older  = "hostpath-provisioner"
)

// Of returns those of all pods that the operator makes.
func Of(i apply.Installation) ([]*unstructured.Unstructured, error) {
	o, err := apply.Parse(openshiftcsi.Constraints)
	if err != nil {
		return nil, fmt.Errorf("read the constraints: %w", err)
	}
	openshiftcsi.ForOperator(o.Object, i.Namespace)
	i.Own(o, nil)
	return []*unstructured.Unstructured{o}, nil
}

// Remove deletes the operator's constraints of that name. It does nothing if there are none, or no such
// API.
func Remove(ctx context.Context, from client.Reader, through client.Writer, name string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(Kind)
	err := from.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err),
		err == nil && o.GetLabels()[apply.ManagedBy] != apply.Owner:
		return nil
	case err != nil:
		return fmt.Errorf("read SecurityContextConstraints %s: %w", name, err)
	}
	err = through.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete SecurityContextConstraints %s: %w", name, err)
	}
	return nil
}
