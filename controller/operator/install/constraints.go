package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	openshiftcsi "kubevirt.io/hostpath-provisioner/manifests/openshift-csi"
)

// ConstraintsKind is the kind of the constraints of pods on OpenShift.
var ConstraintsKind = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1",
	Kind: "SecurityContextConstraints"}

// Names of constraints: those of the agents, and those of the existing operator's DaemonSet for
// hostPath PVs, which the agents replace.
const (
	AgentConstraints = "hostpath-provisioner-csi"
	OlderConstraints = "hostpath-provisioner"
)

// RemoveConstraints deletes the operator's constraints of that name. It does nothing if there are
// none, or no such API.
func (r *Reconciler) RemoveConstraints(ctx context.Context, from client.Reader, name string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(ConstraintsKind)
	err := from.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err),
		err == nil && o.GetLabels()[apply.ManagedBy] != apply.Owner:
		return nil
	case err != nil:
		return fmt.Errorf("read SecurityContextConstraints %s: %w", name, err)
	}
	err = r.Client.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete SecurityContextConstraints %s: %w", name, err)
	}
	return nil
}

// Constraints returns those of all pods that the operator makes.
func (s Settings) Constraints(*v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
	o, err := apply.Parse(openshiftcsi.Constraints)
	if err != nil {
		return nil, fmt.Errorf("read the constraints: %w", err)
	}
	openshiftcsi.ForOperator(o.Object, s.Namespace)
	s.Own(o, nil)
	return []*unstructured.Unstructured{o}, nil
}
