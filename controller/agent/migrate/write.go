package migrate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Every write names the UID and the version of the object that was read. If another
// writer changed it, the API server returns Conflict, and the next step reads it again.

// retain sets the policy to Retain, and the annotation AnnPolicy to the former policy.
func (m *Migrator) retain(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.retain")
	return m.setRetain(ctx, pv, metav1.PatchOptions{})
}

func (m *Migrator) setRetain(ctx context.Context, pv *corev1.PersistentVolume, o metav1.PatchOptions) error {
	return m.patchPV(ctx, pv, map[string]any{"annotations": map[string]any{contract.AnnPolicy: contract.Policy(pv)}},
		map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain}, o)
}

// restore sets the policy of the annotation AnnPolicy. With the policy Delete it also adds the
// provisioner library's finalizer, so that the PV outlives its volume; not on a PV of another
// provisioner, which handles its own. It does nothing without the annotation.
func (m *Migrator) restore(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnPolicy] == "" {
		return nil
	}
	m.Step("migrate.restore")
	meta := map[string]any{"annotations": map[string]any{contract.AnnPolicy: nil}}
	policy := contract.Policy(pv)
	if policy == corev1.PersistentVolumeReclaimDelete && pv.DeletionTimestamp == nil && !m.PVs.IsForeign(pv) &&
		!slices.Contains(pv.Finalizers, contract.Finalizer) {
		meta["finalizers"] = append(slices.Clone(pv.Finalizers), contract.Finalizer)
	}
	return m.patchPV(ctx, pv, meta, map[string]any{"persistentVolumeReclaimPolicy": policy}, metav1.PatchOptions{})
}

// keep leaves the policy at Retain for good: it removes the annotation AnnPolicy, by which a later
// migration, or the end of this one, would set another. It does nothing without the annotation.
func (m *Migrator) keep(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnPolicy] == "" {
		return nil
	}
	m.Step("migrate.keep")
	return m.patchPV(ctx, pv, map[string]any{"annotations": map[string]any{contract.AnnPolicy: nil}}, nil,
		metav1.PatchOptions{})
}

func (m *Migrator) remove(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.delete")
	err := m.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv))
	return gone(err, "delete PV "+pv.Name)
}

func (m *Migrator) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.release")
	return gone(m.patchPV(ctx, pv, map[string]any{"finalizers": nil}, nil, metav1.PatchOptions{}), "")
}

// create creates the new PV, unless a PV has that name; the next step checks which one it is.
func (m *Migrator) create(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.create")
	_, err := m.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the PV: %w", err)
	}
	return nil
}

// touch changes the claim, so that the controller-manager checks it now and not at its next resync.
func (m *Migrator) touch(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	m.Step("migrate.touch")
	patch, err := live.UnchangedPatch(claim, map[string]any{
		"annotations": map[string]any{contract.AnnMigrated: pv.UID},
	}, nil)
	if err != nil {
		return err
	}
	_, err = m.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

func (m *Migrator) patchPV(ctx context.Context, pv *corev1.PersistentVolume, meta, spec map[string]any,
	o metav1.PatchOptions) error {
	if err := live.PatchPV(ctx, m.Client, pv, meta, spec, o); err != nil {
		return fmt.Errorf("change PV %s: %w", pv.Name, err)
	}
	return nil
}

// gone returns nil if the object does not exist, and otherwise the wrapped error.
func gone(err error, what string) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case what == "":
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
