package recovery

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// CheckObjects returns an error unless the objects are those of the volume and nothing more: a person
// applies them with more rights than the program has that made them. node and driver are those of the
// program, and target is the namespace of the claim.
func CheckObjects(v Volume, node, driver, target string) error {
	if v.Objects == nil || v.Objects.PV == nil || v.Objects.Claim == nil {
		return errors.New("the plan has no objects for it")
	}
	pv, claim := v.Objects.PV, v.Objects.Claim
	switch {
	case pv.Name != v.PVName || pv.Labels[contract.LabelNode] != contract.LabelValue(node) ||
		pv.Annotations[contract.AnnPool] != v.PoolUUID:
		return errors.New("the PV of the plan is not named, or not marked, as the volume's")
	case len(pv.Finalizers)+len(pv.OwnerReferences)+len(claim.Finalizers)+len(claim.OwnerReferences) > 0:
		return errors.New("the objects of the plan have finalizers or owners")
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return fmt.Errorf("the PV of the plan has policy %s", pv.Spec.PersistentVolumeReclaimPolicy)
	case !isOf(pv.Spec.PersistentVolumeSource, driver, v):
		return errors.New("the PV of the plan does not name the volume's directory")
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != target || pv.Spec.ClaimRef.Name != v.Claim:
		return errors.New("the PV of the plan is for another claim")
	case claim.Namespace != target || claim.Name != v.Claim || claim.Spec.VolumeName != v.PVName:
		return errors.New("the claim of the plan is another, or names another PV")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil || claim.Spec.Selector != nil:
		return errors.New("the claim of the plan has a data source or a selector")
	}
	for key := range claim.Annotations {
		if !contract.IsKept(key) {
			return fmt.Errorf("the claim of the plan has the annotation %s", key)
		}
	}
	return nil
}

// isOf reports whether a source is the volume's directory below its pool, or its handle, and nothing
// else.
func isOf(s corev1.PersistentVolumeSource, driver string, v Volume) bool {
	is := func(p string) bool {
		return p == path.Join(v.Pool, v.Name) && !strings.Contains(v.Name, "/") && path.IsAbs(p)
	}
	switch {
	case s.CSI != nil:
		secrets := []*corev1.SecretReference{s.CSI.ControllerPublishSecretRef, s.CSI.NodeStageSecretRef,
			s.CSI.NodePublishSecretRef, s.CSI.ControllerExpandSecretRef, s.CSI.NodeExpandSecretRef}
		return s == corev1.PersistentVolumeSource{CSI: s.CSI} && s.CSI.Driver == driver && s.CSI.VolumeHandle == v.Name &&
			!slices.ContainsFunc(secrets, func(ref *corev1.SecretReference) bool { return ref != nil })
	case s.HostPath != nil:
		return s == corev1.PersistentVolumeSource{HostPath: s.HostPath} && is(s.HostPath.Path)
	case s.Local != nil:
		return s == corev1.PersistentVolumeSource{Local: s.Local} && is(s.Local.Path)
	}
	return false
}
