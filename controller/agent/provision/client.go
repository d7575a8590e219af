package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/volume"
)

// libraryClient is the client of the provisioner library. The library takes any PV of the name for
// its own, and retries without an event if the API server refuses one; libraryClient records an
// event on the claim. It deletes only the PV whose volume is gone, changes nothing of a claim but
// the scheduler's choice, and omits writes that would fail.
type libraryClient struct {
	kubernetes.Interface
	controller *Controller
}

// CoreV1 implements kubernetes.Interface.
func (l libraryClient) CoreV1() typedcorev1.CoreV1Interface {
	return libraryCore{l.Interface.CoreV1(), l.controller}
}

type libraryCore struct {
	typedcorev1.CoreV1Interface
	controller *Controller
}

// PersistentVolumes implements typedcorev1.CoreV1Interface.
func (l libraryCore) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return libraryPVs{l.CoreV1Interface.PersistentVolumes(), l.controller}
}

// PersistentVolumeClaims implements typedcorev1.CoreV1Interface.
func (l libraryCore) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return libraryClaims{l.CoreV1Interface.PersistentVolumeClaims(namespace), l.controller}
}

type libraryClaims struct {
	typedcorev1.PersistentVolumeClaimInterface
	controller *Controller
}

// Update removes the scheduler's choice of a node from a claim, which is the only change that
// the library makes. The library's copy of the claim is not all of it, so the rest of the copy
// is not written. The error is a conflict if the claim was changed since.
func (l libraryClaims) Update(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	_ metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	if node := claim.Annotations[contract.AnnSelectedNode]; node != "" {
		return nil, fmt.Errorf("claim %s/%s is not written: the only change that is possible removes its node %q",
			claim.Namespace, claim.Name, node)
	}
	return nodechoice.Unchoose(ctx, l.controller.Client, claim)
}

type libraryPVs struct {
	typedcorev1.PersistentVolumeInterface
	controller *Controller
}

// Create saves a PV. The library takes the error "already exists" for success, so Create returns it
// only if the existing PV is the claim's: of an earlier try, or of another node.
//
// The PV gets no finalizer of the library if the agent could not remove it again.
func (l libraryPVs) Create(ctx context.Context, pv *corev1.PersistentVolume,
	o metav1.CreateOptions) (*corev1.PersistentVolume, error) {
	if !l.controller.Info.MayPatchPVs() {
		pv = pv.DeepCopy()
		pv.Finalizers = withoutFinalizer(pv)
	}
	saved, err := l.PersistentVolumeInterface.Create(ctx, pv, o)
	l.controller.saving.note(pv.Name, live.Permanent(err))
	switch {
	case err == nil:
		return saved, nil
	case apierrors.IsAlreadyExists(err):
		there, getErr := l.Get(ctx, pv.Name, metav1.GetOptions{})
		if getErr != nil {
			err = fmt.Errorf("read the PV that is there already: %w", getErr)
			l.warnUnsaved(ctx, pv, err)
			return nil, err
		}
		if contract.ClaimUID(there) == contract.ClaimUID(pv) {
			return nil, err
		}
		message := fmt.Sprintf("a PV named %q is there already (node %q, claim UID %q) and is not this claim's: "+
			"delete that PV once its data is safe", pv.Name, cmp.Or(contract.Hostname(there), contract.TopologyOf(there)),
			contract.ClaimUID(there))
		l.warn(ctx, pv, message)
		return nil, fmt.Errorf("save PV: %s", message)
	case live.Permanent(err):
		l.warn(ctx, pv, fmt.Sprintf("the volume exists but its PV cannot be saved: %v; "+
			"the agent tries again within five minutes, until that is mended", err))
	default:
		l.warnUnsaved(ctx, pv, err)
	}
	return nil, err
}

// warnUnsaved records an event about a PV that could not be saved for two minutes, because a webhook is
// down for example: nothing else says why its claim waits.
func (l libraryPVs) warnUnsaved(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	if ctx.Err() == nil && l.controller.held.Ends(types.UID("save "+contract.ClaimUID(pv))) {
		l.warnOf(ctx, pv, "unsaved", fmt.Sprintf("the volume exists but its PV could not be saved for minutes: %v; the agent "+
			"tries again every half minute", why))
	}
}

// Delete deletes a PV whose volume is gone. It removes the library's finalizer first:
// the library does so afterwards, at the same moment as the controller-manager removes
// its own, and one of the two then has to write again. If the agent ends between the
// two writes, the library calls Provisioner.Delete once more. It records an event on a PV that the API
// server refuses to delete.
func (l libraryPVs) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	pv := l.controller.deletions.take(name)
	if pv == nil {
		return l.PersistentVolumeInterface.Delete(ctx, name, o)
	}
	// If that fails, the library removes it after the deletion.
	released := l.release(ctx, pv) == nil
	o.Preconditions = metav1.NewUIDPreconditions(string(pv.UID))
	err := l.PersistentVolumeInterface.Delete(ctx, name, o)
	if apierrors.IsNotFound(err) { // the watch is behind
		err, released = nil, true
	}
	switch {
	case err == nil && released:
		l.controller.over(pv)
	case live.Permanent(err):
		l.controller.deletions.refuse(pv)
		l.controller.Events.Warn(ctx, events.PV(pv), "undeleted", events.VolumeFailedDelete, fmt.Sprintf("node %s: the volume "+
			"of this PV is deleted, and the PV cannot be: %v; the agent tries again every few minutes, until what refuses it is "+
			"corrected", l.controller.Info.Name(), err))
	}
	return err
}

// release removes the library's finalizer from a PV, unless that was changed or deleted since.
func (l libraryPVs) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		return errors.New("it is deleted")
	}
	if !contract.HasFinalizer(pv) {
		return nil
	}
	patch, err := live.UnchangedPatch(pv, map[string]any{"finalizers": withoutFinalizer(pv)}, nil)
	if err != nil {
		return err
	}
	_, err = l.PersistentVolumeInterface.Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func withoutFinalizer(pv *corev1.PersistentVolume) []string {
	return slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == contract.Finalizer })
}

// Patch changes a PV. The library patches the finalizer of a PV that it deleted; Patch
// does nothing if Delete has removed that. The library also adds the finalizer; without
// permission to patch PVs that does nothing. It removes the finalizer of a PV with another
// policy than Delete, too; Patch returns an error until the volume's record has the policy.
func (l libraryPVs) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions,
	subresources ...string) (*corev1.PersistentVolume, error) {
	if there := l.controller.PVs.Saved(name); there != nil {
		if l.controller.deletions.isOver(there) {
			return there, nil
		}
		if !l.controller.Info.MayPatchPVs() && !contract.HasFinalizer(there) {
			return there, nil
		}
		if there.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete &&
			contract.HasFinalizer(there) {
			if err := l.controller.PVs.CheckRecorded(there); err != nil {
				l.warnHeld(ctx, there, err)
				return nil, err
			}
		}
	}
	pv, err := l.PersistentVolumeInterface.Patch(ctx, name, kind, data, o, subresources...)
	if err == nil && letGo(pv) {
		l.controller.over(pv)
	}
	return pv, err
}

// heldAfter is how long a PV is being deleted before its finalizer counts as held. A pool that is
// ready has the policy in its record long before.
const heldAfter = 30 * time.Second

// warnHeld records an event if a PV is being deleted and waits for its policy to be recorded.
func (l libraryPVs) warnHeld(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	if at := pv.DeletionTimestamp; at != nil && (errors.Is(why, volume.ErrNotReady) || time.Since(at.Time) > heldAfter) {
		l.controller.Events.Warn(ctx, events.PV(pv), "held", events.VolumeHeld, fmt.Sprintf(
			"node %s: the deletion of this PV waits, and its volume is kept: %v", l.controller.Info.Name(), why))
	}
}

// letGo reports whether a PV is deleted and has no finalizer of the library.
func letGo(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp != nil && !contract.HasFinalizer(pv)
}

func (l libraryPVs) warn(ctx context.Context, pv *corev1.PersistentVolume, message string) {
	l.warnOf(ctx, pv, "saving", message)
}

func (l libraryPVs) warnOf(ctx context.Context, pv *corev1.PersistentVolume, topic, message string) {
	if pv.Spec.ClaimRef != nil {
		l.controller.Events.Warn(ctx, *pv.Spec.ClaimRef, topic, events.ProvisioningFailed, message)
	}
}
