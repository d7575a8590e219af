package operator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/constraints"
	"kubevirt.io/hostpath-provisioner/controller/operator/optional"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// keepConstraints keeps the constraints of the agents' pods while the cluster has such an API.
func (r *wiring) keepConstraints(mgr ctrl.Manager) error {
	return mgr.Add(&optional.Reconciler{Manager: mgr, Owner: &v1beta1.HostPathProvisioner{},
		API: constraints.Kind.GroupVersion(), Kinds: []schema.GroupVersionKind{constraints.Kind},
		Apply: func(ctx context.Context, through client.Client) error {
			wanted := func(*v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
				return constraints.Of(r.Installation)
			}
			return errors.Join(r.applyOptional(ctx, through, wanted), constraints.Remove(ctx, through, r.Client, constraints.Older))
		}})
}

// followProfile reads the TLS profile of the cluster after each change, and returns a channel that
// receives when another one applies.
func (r *wiring) followProfile(mgr ctrl.Manager) (<-chan event.GenericEvent, error) {
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
