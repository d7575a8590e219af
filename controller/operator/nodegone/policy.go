package nodegone

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// policy is what happens to the volumes of a class whose node is gone.
type policy string

const (
	// keep reports the volume.
	keep policy = "keep"
	// release deletes claim and PV. If the node comes back, its agent keeps the directory and
	// reports it as an orphan.
	release policy = "release"
	// remove deletes the claim. The PV stays for the node: if that comes back, its agent acts by
	// the PV's reclaim policy.
	remove policy = "delete"
)

// policyOf returns the policy of a PV, whose class is sc. Without a class it is keep. It is keep
// too for a PV that the provisioners did not make: an administrator did. invalid describes an
// annotation that is none of the policies.
func policyOf(pv *corev1.PersistentVolume, sc *storagev1.StorageClass) (p policy, invalid string) {
	by := pv.Annotations[contract.AnnProvisionedBy]
	if sc == nil || by != contract.HostPathProvisioner && by != contract.CSIProvisioner {
		return keep, ""
	}
	switch p := policy(sc.Annotations[contract.AnnNodeGone]); p {
	case "", keep:
		return keep, ""
	case release, remove:
		return p, ""
	default:
		return keep, fmt.Sprintf("class %s has the annotation %s: %q; set it to %s, %s or %s. ",
			sc.Name, contract.AnnNodeGone, string(p), keep, release, remove)
	}
}

// cachedClass returns the class of a PV from the cache, nil if there is none.
func (r *Reconciler) cachedClass(ctx context.Context, pv *corev1.PersistentVolume) (*storagev1.StorageClass, error) {
	var sc storagev1.StorageClass
	err := r.Cache.Get(ctx, types.NamespacedName{Name: pv.Spec.StorageClassName}, &sc)
	if pv.Spec.StorageClassName == "" || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &sc, err
}

// liveClass reads the class of a PV from the API server. It is nil if there is none.
func (r *Reconciler) liveClass(ctx context.Context, pv *corev1.PersistentVolume) (*storagev1.StorageClass, error) {
	if pv.Spec.StorageClassName == "" {
		return nil, nil
	}
	sc, err := r.Live.StorageV1().StorageClasses().Get(ctx, pv.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, live.Unanswered{Request: "read class " + pv.Spec.StorageClassName, Err: err}
	}
	return sc, nil
}
