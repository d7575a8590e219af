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
// A webhook may change what is written: a write whose effect is not in the answer is untaken, and is
// not sent again at once.

// untaken is the error of a write that the API server accepted and that has no effect.
type untaken struct{ pv, what string }

func (e untaken) Error() string {
	return fmt.Sprintf("change PV %s: %s, because a webhook or another program changes what is written", e.pv, e.what)
}

// retain sets the policy to Retain, and the annotation AnnPolicy to the former policy.
func (m *Migrator) retain(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.retain")
	return m.setRetain(ctx, pv, metav1.PatchOptions{})
}

func (m *Migrator) setRetain(ctx context.Context, pv *corev1.PersistentVolume, o metav1.PatchOptions) error {
	now, err := m.patchPV(ctx, pv, map[string]any{"annotations": map[string]any{contract.AnnPolicy: contract.Policy(pv)}},
		map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain}, o)
	switch {
	case err != nil:
		return err
	case now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return untaken{pv.Name, fmt.Sprintf("its reclaim policy stays %s", now.Spec.PersistentVolumeReclaimPolicy)}
	case now.Annotations[contract.AnnPolicy] == "":
		return untaken{pv.Name, "it does not get the annotation " + contract.AnnPolicy}
	}
	return nil
}

// restore sets the policy of the annotation AnnPolicy, and removes the annotation.
func (m *Migrator) restore(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnPolicy] == "" {
		return nil
	}
	return m.setPolicy(ctx, pv, contract.Policy(pv))
}

// setPolicy sets a policy and removes the annotation AnnPolicy. With the policy Delete it also adds
// the provisioner library's finalizer, so that the PV outlives its volume; not on a PV of another
// provisioner, which handles its own. A webhook may decide on another policy.
func (m *Migrator) setPolicy(ctx context.Context, pv *corev1.PersistentVolume,
	policy corev1.PersistentVolumeReclaimPolicy) error {
	m.Step("migrate.restore")
	meta := map[string]any{"annotations": map[string]any{contract.AnnPolicy: nil}}
	if policy == corev1.PersistentVolumeReclaimDelete && pv.DeletionTimestamp == nil && !m.PVs.IsForeign(pv) &&
		!contract.HasFinalizer(pv) {
		meta["finalizers"] = append(slices.Clone(pv.Finalizers), contract.Finalizer)
	}
	now, err := m.patchPV(ctx, pv, meta, map[string]any{"persistentVolumeReclaimPolicy": policy}, metav1.PatchOptions{})
	return unmarked(now, err)
}

// unmarked returns an untaken error if a PV has the annotation AnnPolicy, which was removed.
func unmarked(now *corev1.PersistentVolume, err error) error {
	if err == nil && now.Annotations[contract.AnnPolicy] != "" {
		return untaken{now.Name, "its annotation " + contract.AnnPolicy + " stays"}
	}
	return err
}

// keep leaves the policy at Retain for good: it removes the annotation AnnPolicy, by which a later
// migration, or the end of this one, would set another. It does nothing without the annotation.
func (m *Migrator) keep(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnPolicy] == "" {
		return nil
	}
	m.Step("migrate.keep")
	return unmarked(m.patchPV(ctx, pv, map[string]any{"annotations": map[string]any{contract.AnnPolicy: nil}}, nil,
		metav1.PatchOptions{}))
}

func (m *Migrator) remove(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.delete")
	err := m.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv))
	return gone(err, "delete PV "+pv.Name)
}

func (m *Migrator) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	m.Step("migrate.release")
	now, err := m.patchPV(ctx, pv, map[string]any{"finalizers": nil}, nil, metav1.PatchOptions{})
	if err == nil && len(now.Finalizers) > 0 {
		return untaken{pv.Name, fmt.Sprintf("its finalizers stay: %q", now.Finalizers)}
	}
	return gone(err, "")
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

// patchPV returns the PV as the API server has it after the write, or would have it after a dry run.
func (m *Migrator) patchPV(ctx context.Context, pv *corev1.PersistentVolume, meta, spec map[string]any,
	o metav1.PatchOptions) (*corev1.PersistentVolume, error) {
	patch, err := live.UnchangedPatch(pv, meta, spec)
	if err != nil {
		return nil, err
	}
	now, err := m.Client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, o)
	if err != nil {
		return nil, fmt.Errorf("change PV %s: %w", pv.Name, err)
	}
	return now, nil
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
