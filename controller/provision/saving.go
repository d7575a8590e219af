package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
)

// savingClient is the client that the library saves PVs with, and deletes them.
// The library takes any PV of the name for its own, and tries again for ever and
// silently where the API server refuses one; this says it on the claim. And it
// deletes the PV whose volume is gone, and no other, without a write in vain.
type savingClient struct {
	kubernetes.Interface
	controller *Controller
}

// CoreV1 implements kubernetes.Interface.
func (s savingClient) CoreV1() typedcorev1.CoreV1Interface {
	return savingCore{s.Interface.CoreV1(), s.controller}
}

type savingCore struct {
	typedcorev1.CoreV1Interface
	controller *Controller
}

// PersistentVolumes implements typedcorev1.CoreV1Interface.
func (s savingCore) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return savingPVs{s.CoreV1Interface.PersistentVolumes(), s.controller}
}

type savingPVs struct {
	typedcorev1.PersistentVolumeInterface
	controller *Controller
}

// Create saves a PV. "Already exists" is passed on, which the library takes for
// success, only where the PV there is the claim's: ours from an earlier try, or
// the one of the node that the claim went to meanwhile.
//
// The PV gets no finalizer of the library if the agent could not remove it again.
func (s savingPVs) Create(ctx context.Context, pv *corev1.PersistentVolume, o metav1.CreateOptions) (*corev1.PersistentVolume, error) {
	if !s.controller.info.MayPatchPVs() {
		pv = pv.DeepCopy()
		pv.Finalizers = withoutFinalizer(pv)
	}
	saved, err := s.PersistentVolumeInterface.Create(ctx, pv, o)
	switch {
	case err == nil:
		return saved, nil
	case apierrors.IsAlreadyExists(err):
		there, getErr := s.Get(ctx, pv.Name, metav1.GetOptions{})
		if getErr != nil {
			return nil, fmt.Errorf("read the PV that is there already: %w", getErr)
		}
		if class.ClaimUID(there) == class.ClaimUID(pv) {
			return nil, err
		}
		message := fmt.Sprintf("a PV named %q is there already (node %q, claim UID %q) and is not this claim's: "+
			"delete that PV once its data is safe", pv.Name, cmp.Or(class.Hostname(there), class.TopologyOf(there)), class.ClaimUID(there))
		s.say(ctx, pv, message)
		return nil, fmt.Errorf("save PV: %s", message)
	case permanent(err):
		s.say(ctx, pv, fmt.Sprintf("the volume is made but its PV cannot be saved: %v; "+
			"it is tried again until that is mended", err))
	}
	return nil, err
}

// Delete deletes a PV, as the library does once its volume is gone. The library's
// finalizer goes first. The library takes it away afterwards, at the same moment as
// the controller-manager its own, and then one of them has to write again. An agent
// that dies between the two writes is asked to delete the volume once more.
func (s savingPVs) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	pv := s.controller.deletions.take(name)
	if pv == nil {
		return s.PersistentVolumeInterface.Delete(ctx, name, o)
	}
	// Where that fails, the library does it as it would have.
	released := s.release(ctx, pv) == nil
	o.Preconditions = metav1.NewUIDPreconditions(string(pv.UID))
	err := s.PersistentVolumeInterface.Delete(ctx, name, o)
	if apierrors.IsNotFound(err) { // which is only not seen yet
		err, released = nil, true
	}
	if err == nil && released {
		s.controller.deletions.over(pv)
	}
	return err
}

// release takes the library's finalizer off a PV that nobody changed since, and that
// is not deleted yet.
func (s savingPVs) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		return errors.New("it is deleted")
	}
	if !slices.Contains(pv.Finalizers, class.Finalizer) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pv.UID, "resourceVersion": pv.ResourceVersion,
		"finalizers": withoutFinalizer(pv),
	}})
	if err != nil {
		return err
	}
	_, err = s.PersistentVolumeInterface.Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// withoutFinalizer returns the finalizers of a PV but the library's.
func withoutFinalizer(pv *corev1.PersistentVolume) []string {
	return slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == class.Finalizer })
}

// Patch changes a PV, as the library does last to one that it deleted: in vain where
// that is done, and its store only does not say so yet. It also gives a PV its
// finalizer; without permission to patch PVs that does nothing.
func (s savingPVs) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (
	*corev1.PersistentVolume, error) {
	if there := s.controller.pvs.Saved(name); there != nil {
		if s.controller.deletions.isOver(there) {
			return there, nil
		}
		if !s.controller.info.MayPatchPVs() && !slices.Contains(there.Finalizers, class.Finalizer) {
			return there, nil
		}
	}
	pv, err := s.PersistentVolumeInterface.Patch(ctx, name, kind, data, o, subresources...)
	if err == nil && letGo(pv) {
		s.controller.deletions.over(pv)
	}
	return pv, err
}

// letGo reports whether a PV is deleted, and nothing of the library keeps it.
func letGo(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp != nil && !slices.Contains(pv.Finalizers, class.Finalizer)
}

// permanent reports whether trying again without a change elsewhere is vain.
func permanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (s savingPVs) say(ctx context.Context, pv *corev1.PersistentVolume, message string) {
	if pv.Spec.ClaimRef != nil {
		s.controller.events.Warn(ctx, *pv.Spec.ClaimRef, "saving", events.ProvisioningFailed, message)
	}
}
