package operator

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/optional"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
	openshiftcsi "kubevirt.io/hostpath-provisioner/manifests/openshift-csi"
)

var constraintsKind = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1",
	Kind: "SecurityContextConstraints"}

// Names of constraints: those of the agents, and those of the existing operator's DaemonSet for
// hostPath PVs, which the agents replace.
const (
	agentConstraints = "hostpath-provisioner-csi"
	olderConstraints = "hostpath-provisioner"
)

// keepConstraints keeps the constraints of the agents' pods while the cluster has such an API.
func (r *Reconciler) keepConstraints(mgr ctrl.Manager) error {
	return mgr.Add(&optional.Reconciler{Manager: mgr, Owner: &v1beta1.HostPathProvisioner{},
		API: constraintsKind.GroupVersion(), Kinds: []schema.GroupVersionKind{constraintsKind},
		Apply: func(ctx context.Context, through client.Client) error {
			return errors.Join(r.applyOptional(ctx, through, r.constraints), r.removeConstraints(ctx, through, olderConstraints))
		}})
}

// constraints returns those of all pods that the operator makes.
func (s Settings) constraints(*v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
	o, err := apply.Parse(openshiftcsi.Constraints)
	if err != nil {
		return nil, fmt.Errorf("read the constraints: %w", err)
	}
	openshiftcsi.ForOperator(o.Object, s.Namespace)
	s.installation().Own(o, nil)
	return []*unstructured.Unstructured{o}, nil
}

// removeConstraints deletes the operator's constraints of that name. It does nothing if there are
// none, or no such API.
func (r *Reconciler) removeConstraints(ctx context.Context, from client.Reader, name string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(constraintsKind)
	err := from.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && o.GetLabels()[apply.ManagedBy] != apply.Owner:
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

// followProfile reads the TLS profile of the cluster after each change, and returns a channel that
// receives when another one applies.
func (r *Reconciler) followProfile(mgr ctrl.Manager) (<-chan event.GenericEvent, error) {
	changed := make(chan event.GenericEvent, 1)
	keeper := &optional.Reconciler{Manager: mgr, Owner: &v1beta1.HostPathProvisioner{},
		API: tlsprofile.Kind.GroupVersion(), Kinds: []schema.GroupVersionKind{tlsprofile.Kind},
		Apply: func(ctx context.Context, through client.Client) error {
			did, err := r.Profile.Read(ctx, through)
			if did {
				select {
				case changed <- event.GenericEvent{Object: &v1beta1.HostPathProvisioner{}}:
				default: // one is on its way
				}
			}
			return err
		}}
	return changed, mgr.Add(everywhere{keeper})
}

// everywhere is a runnable that also runs in operators that do not reconcile: their addresses have
// the same settings.
type everywhere struct{ *optional.Reconciler }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
