// Package removal finds what still needs the agents of a form, so that an uninstallation is refused
// before it begins.
package removal

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Forms cannot always be removed: pods cannot end without the agents of the first two, and
// resources cannot without the operator. Pods with hostPath volumes and with disks need no agent.
var Forms = []string{"csi", "both", "operator"}

// Check returns an error that names what needs the form: pods that have not ended and have CSI
// volumes, or HostPathProvisioner resources. For a form that is not in Forms it returns nil.
func Check(ctx context.Context, from client.Reader, form string) error {
	var what string
	var users []string
	var err error
	switch {
	case !slices.Contains(Forms, form):
		return nil
	case form == "operator":
		what = "HostPathProvisioner resources need the operator; delete them and wait until they are gone"
		users, err = resources(ctx, from)
	default:
		what = "pods with CSI volumes cannot end without the agents; delete the pods, or what creates them, first"
		users, err = pods(ctx, from)
	}
	if err != nil || len(users) == 0 {
		return err
	}
	slices.Sort(users)
	return fmt.Errorf("%s: %s", what, events.Names(users, events.Listed))
}

// resources returns the HostPathProvisioners, none where their definition does not exist.
func resources(ctx context.Context, from client.Reader) (names []string, err error) {
	var all v1beta1.HostPathProvisionerList
	if err := from.List(ctx, &all); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list HostPathProvisioners: %w", err)
	}
	for _, r := range all.Items {
		names = append(names, r.Name)
	}
	return names, nil
}

// pods returns the pods that have not ended and have a volume of the driver, inline or by a claim.
func pods(ctx context.Context, from client.Reader) (names []string, err error) {
	claims := map[string]bool{} // that have a CSI volume, as namespace/name
	err = installed.EachPV(ctx, from, func(pv *corev1.PersistentVolume) {
		if pv.Spec.CSI != nil && identity.Provisioned(pv) && pv.Spec.ClaimRef != nil {
			claims[pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name] = true
		}
	})
	if err != nil {
		return nil, err
	}
	err = installed.EachPod(ctx, from, func(pod *corev1.Pod) {
		if uses(pod, claims) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	})
	return names, err
}

// uses reports whether a pod that is on a node, and has not ended, has an inline volume or one of
// the claims.
func uses(pod *corev1.Pod, claims map[string]bool) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for claim := range contract.ClaimUsers([]corev1.Pod{*pod}) {
		if claims[claim] {
			return true
		}
	}
	return len(identity.InlinePools(pod)) > 0
}
